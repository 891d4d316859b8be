// Runs a fuzz target once on every file of the given folders and files, with g++ and without
// libFuzzer. Used as a test, and to examine a finding.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "tests/fuzz/input.h"

namespace {

void run(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  s3oram::fuzz::require(in.is_open(), file.c_str());
  const std::vector<char> content{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::uint8_t> bytes(content.begin(), content.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::set<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      files.insert(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      files.insert(entry.path());
  }
  for (const auto& file : files) run(file);
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
