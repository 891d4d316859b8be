#include "fused/passphrase.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class Passphrase : public ::testing::Test {
 protected:
  Passphrase() {
    std::string name = fs::temp_directory_path() / "s3oram-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "file") << "of the file\nanother line\n";
    ::setenv("CREDENTIALS_DIRECTORY", folder_.c_str(), 1);
  }
  ~Passphrase() override {
    ::unsetenv("CREDENTIALS_DIRECTORY");
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(Passphrase, IsTheFilesFirstLine) {
  std::ofstream(folder_ / "s3oramfs.passphrase") << "of the credential\n";
  const auto line = read_passphrase(folder_ / "file", "?");
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "of the file");
}

TEST_F(Passphrase, IsTheCredentialWithoutAFile) {
  std::ofstream(folder_ / "s3oramfs.passphrase") << "of the credential\n";
  const auto line = read_passphrase({}, "?");
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "of the credential");
}

TEST_F(Passphrase, IsNotEmptyWhereTheFileIs) {
  std::ofstream(folder_ / "s3oramfs.passphrase").flush();
  const auto line = read_passphrase({}, "?");
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, Errc::usage);
  EXPECT_NE(line.error().message.find((folder_ / "s3oramfs.passphrase").string()),
            std::string::npos);
  EXPECT_FALSE(read_passphrase(folder_ / "none", "?"));
}

}  // namespace
}  // namespace s3oram
