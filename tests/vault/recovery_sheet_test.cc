// Tests that a text survives being printed and typed in again, and that typing errors are found.
#include "oramcore/vault/recovery_sheet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace s3oram {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string sample(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string why_not(const std::string& text) {
  const auto read = read_sheet(text, "typed");
  return read ? "read" : read.error().message;
}

TEST(RecoverySheet, ComesBack) {
  for (const std::size_t size : {0u, 1u, 16u, 17u, 18u, 24u, 25u, 26u, 900u, 5000u}) {
    const std::string text = sample(size);
    const auto read = read_sheet(joined(sheet_lines(text)), "typed");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, text);
  }
}

TEST(RecoverySheet, IsReadAsPeopleType) {
  const std::string text = sample(200);
  auto lines = sheet_lines(text);
  std::ranges::reverse(lines);
  std::string typed = "A heading\n1/2 of something\n\n";
  for (std::string line : lines) {
    for (char& c : line)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    typed += "  " + line + "\r\n" + line + "\n";  // typing a line twice does no harm
  }
  EXPECT_TRUE(is_sheet(typed));
  EXPECT_EQ(read_sheet(typed + "<p>the end</p>\n", "typed").value(), text);
}

TEST(RecoverySheet, TakesLettersForDigits) {
  const std::string text(100, '\0');  // all zeros
  auto lines = sheet_lines(text);
  for (std::string& line : lines) std::replace(line.begin() + 4, line.end(), '0', 'O');
  EXPECT_EQ(read_sheet(joined(lines), "typed").value(), text);
}

TEST(RecoverySheet, FindsEveryChangedLetter) {
  const auto lines = sheet_lines(sample(60));
  ASSERT_EQ(lines.size(), 3u);
  for (std::size_t at = lines[1].find("  "); at < lines[1].size(); ++at) {
    if (lines[1][at] == ' ') continue;
    auto typed = lines;
    typed[1][at] = typed[1][at] == 'X' ? 'Y' : 'X';
    EXPECT_EQ(why_not(joined(typed)), "typed: not as printed: line 2") << at;
    typed[1].erase(at, 1);
    EXPECT_EQ(why_not(joined(typed)), "typed: not as printed: line 2") << at;
  }
}

TEST(RecoverySheet, FindsLinesThatAreMissingOrOfAnother) {
  auto lines = sheet_lines(sample(100));
  const auto other = sheet_lines(sample(101));
  ASSERT_EQ(other.size(), lines.size());
  auto mixed = lines;
  mixed[1] = other[1];
  EXPECT_NE(why_not(joined(mixed)).find("more than one sheet"), std::string::npos);
  EXPECT_NE(why_not(joined(lines) + other[1]).find("line 2 belongs to another sheet"),
            std::string::npos);
  EXPECT_NE(why_not(joined(lines) + sheet_lines(sample(10))[0]).find("another sheet"),
            std::string::npos);
  lines.erase(lines.begin() + 2);
  lines.pop_back();
  EXPECT_EQ(why_not(joined(lines)), "typed: missing: line 3, 5");
}

TEST(RecoverySheet, IsNotTakenForSomethingElse) {
  EXPECT_FALSE(is_sheet("{\"s3oramfs recovery\": 1}\n"));
  EXPECT_FALSE(is_sheet("a page of 3/2 lines\n5/4 is more than all\n0/3 none\n"));
}

}  // namespace
}  // namespace s3oram
