// Tests that the --help of every program and command fits a terminal.
#include <gtest/gtest.h>
#include <stdio.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace s3oram {
namespace {

using Lines = std::vector<std::string>;

Lines output_of(const std::string& command) {
  FILE* pipe = ::popen(("'" BIN "'/" + command).c_str(), "re");
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  std::istringstream in(text);
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_fits(const std::string& command) {
  const Lines lines = output_of(command + " --help");
  EXPECT_GT(lines.size(), 3u) << command;
  EXPECT_LE(lines.size(), 32u) << command;
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 80u) << command << ": " << line;
    EXPECT_FALSE(std::regex_search(line, std::regex("INT in|:SIZE|\\.\\.\\. \\.\\.\\.|\\{")))
        << command << ": " << line;
  }
  for (std::size_t i = 1; i < lines.size(); ++i)
    EXPECT_FALSE(lines[i].empty() && lines[i - 1].empty()) << command << ": two empty lines";
  EXPECT_FALSE(lines.empty() || lines.back().empty()) << command;
}

TEST(Help, FitsATerminal) {
  for (const std::string program : {"s3oramfs", "s3oramfs-serverd"}) {
    expect_fits(program);
    unsigned commands = 0;
    std::smatch found;
    for (const std::string& line : output_of(program + " --help")) {
      if (!std::regex_search(line, found, std::regex("^  ([a-z]+)( |$)"))) continue;
      expect_fits(program + " " + found[1].str());
      ++commands;
    }
    EXPECT_GE(commands, 4u) << program;
  }
}

}  // namespace
}  // namespace s3oram
