// Tests what a mount command mounts, depending on the command line, the environment, and the files
// of named mounts.
#include "cli/mount_words.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cli/vault_argument.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class MountWordsTest : public testing::Test {
 protected:
  MountWordsTest() : before_(fs::current_path()) {
    fs::create_directories(folder());
    fs::create_directories(root_ / "here");
    fs::current_path(root_ / "here");
    ::setenv("XDG_CONFIG_HOME", (root_ / "config").c_str(), 1);
    ::setenv("HOME", root_.path().c_str(), 1);
  }
  ~MountWordsTest() override {
    fs::current_path(before_);
    for (const char* name :
         {"VAULT", "DIRECTORY", "PASSFILE", "PASSPROG", "KEYFILE", "MOUNT_OPTIONS", "LOG_LEVEL"})
      ::unsetenv(("S3ORAMFS_" + std::string(name)).c_str());
    ::unsetenv("XDG_CONFIG_HOME");
  }
  fs::path folder() const { return root_ / "config/s3oramfs"; }
  std::string home(const std::string& name) const { return (root_ / name).string(); }
  void name(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    std::ofstream(folder() / name) << content;
    ::chmod((folder() / name).c_str(), mode);
  }
  static void set(const char* name, const std::string& value) {
    ::setenv(("S3ORAMFS_" + std::string(name)).c_str(), value.c_str(), 1);
  }
  static Args words(const Args& args) {
    auto found = mount_words(args);
    EXPECT_TRUE(found) << found.error().message;
    return found ? *found : Args{};
  }
  static void refused(const Args& args, Errc code, const std::string& word) {
    const auto found = mount_words(args);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, code) << found.error().message;
    EXPECT_NE(found.error().message.find(word), std::string::npos) << found.error().message;
  }

  TemporaryDirectory root_;
  fs::path before_;
};

TEST_F(MountWordsTest, LeavePathsAsTheyAre) {
  EXPECT_EQ(words({"-f", "/v", "/m", "-o", "ro,cache=1G", "--timeout", "5"}),
            (Args{"--foreground", "-o", "ro,cache=1G", "--timeout=5", "--", "/v", "/m"}));
  EXPECT_EQ(words({"--help"}), Args{"--help"});
}

TEST_F(MountWordsTest, TakeNames) {
  name("photos",
       "# mine\nvault = \"~/photos.vault\"\ndirectory = ~/photos\n"
       "options = \"noatime,idle=10m\"\ncache = 1G # much\n");
  EXPECT_EQ(words({"photos"}), (Args{"-o", "noatime", "--idle=10m", "--cache=1G", "--",
                                     home("photos.vault"), home("photos")}));
  EXPECT_EQ(words({"photos", "/elsewhere", "-o", "ro"}).back(), "/elsewhere");
}

TEST_F(MountWordsTest, TakeAPathIfThereIsOne) {
  name("photos", "vault = /v\ndirectory = /m\n");
  EXPECT_EQ(words({"./photos", "/m2"}), (Args{"--", "./photos", "/m2"}));
  fs::create_directory("photos");
  testing::internal::CaptureStderr();
  EXPECT_EQ(words({"photos", "/m2"}), (Args{"--", "photos", "/m2"}));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("in this directory"), std::string::npos);
  name("photos", "vault = /v\ndirectory = " + home("here/photos") + "\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(words({"photos"}), (Args{"--", "/v", home("here/photos")})) << "both mean the same";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(MountWordsTest, TheCommandLineOverrulesTheEnvironmentAndThatTheFile) {
  name("photos",
       "vault = /v\ndirectory = /m\nlog-level = debug\ncache = 1G\npassfile = /file\n"
       "options = timeout=7\n");
  set("LOG_LEVEL", "warning");
  set("MOUNT_OPTIONS", "cache=2G,noatime");
  set("DIRECTORY", "/m2");
  EXPECT_EQ(words({"photos"}),
            (Args{"--log-level=debug", "--cache=1G", "--passfile=/file", "--timeout=7",
                  "--log-level=warning", "--cache=2G", "-o", "noatime", "--", "/v", "/m2"}))
      << "of two the later counts";
  EXPECT_EQ(words({"photos", "/m3", "--log-level", "error"}).end()[-4], "--log-level=error");
}

TEST_F(MountWordsTest, OneThingOpensTheVault) {
  name("photos", "vault = /v\ndirectory = /m\npassfile = /file\n");
  set("KEYFILE", "/key");
  EXPECT_EQ(words({"photos"}), (Args{"--keyfile=/key", "--", "/v", "/m"}));
  EXPECT_EQ(words({"photos", "--passprog", "program"}),
            (Args{"--passprog=program", "--", "/v", "/m"}));
  EXPECT_EQ(words({"photos", "-o", "ro,passfile=/other"}),
            (Args{"-o", "ro,passfile=/other", "--", "/v", "/m"}));
  set("PASSFILE", "/file");
  refused({"photos"}, Errc::usage, "S3ORAMFS_*: only one of");
}

TEST_F(MountWordsTest, TheEnvironmentAlone) {
  set("VAULT", "/v");
  set("DIRECTORY", "/m");
  EXPECT_EQ(words({}), (Args{"--", "/v", "/m"}));
  name("photos", "vault = /photos\n");
  set("VAULT", "photos");
  EXPECT_EQ(words({}), (Args{"--", "/photos", "/m"}));
  set("LOG_LEVEL", "loud");
  refused({}, Errc::usage, "S3ORAMFS_LOG_LEVEL=loud: ");
}

TEST_F(MountWordsTest, ListTheNames) {
  refused({}, Errc::usage, "to define a name");
  name("photos", "vault = /v\n");
  name("letters", "vault = /w\n");
  name("photos.env", "S3ORAMFS_OPTIONS=-f\n");
  name("photos~", "");
  refused({}, Errc::usage, "are: letters, photos");
  refused({"photo"}, Errc::not_a_vault, "did you mean photos?");
  refused({"nothing", "/m"}, Errc::not_a_vault, "are: letters, photos");
  refused({"photos"}, Errc::usage, "add directory = ");
}

TEST_F(MountWordsTest, SayTheLineThatIsWrong) {
  const auto wrong = [&](const std::string& line, const std::string& why) {
    name("photos", "vault = /v\ndirectory = /m\n" + line + "\n");
    refused({"photos"}, Errc::usage, (folder() / "photos").string() + ": line 3: ");
    refused({"photos"}, Errc::usage, why);
  };
  wrong("cash = 1G", "did you mean \"cache\"?");
  wrong("cache = 1 G", "");
  wrong("cache = \"much\"", "cache = \"much\": ");
  wrong("passfile = pass", "begins with / or ~/");
  wrong("options = \"noatime,nonsense\"", "no such mount option");
  wrong("vault = /w", "line 1 already");
  wrong("[mount]", "no sections");
  name("photos", "directory = /m\n");
  refused({"photos"}, Errc::usage, "add vault = ");
  name("photos", "vault = /v\ndirectory = /m\npassfile = /a\nkeyfile = /b\n");
  refused({"photos"}, Errc::usage, "photos: only one of");
}

TEST_F(MountWordsTest, RefuseAFileThatOthersMayChange) {
  name("photos", "vault = /v\ndirectory = /m\n", 0664);
  refused({"photos"}, Errc::usage, "chmod go-w");
  name("photos", "vault = /v\ndirectory = /m\n", 0600);
  EXPECT_TRUE(mount_words({"photos"}));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown((folder() / "photos").c_str(), 12345, 12345), 0);
  refused({"photos"}, Errc::usage, "belongs to user 12345");
}

TEST_F(MountWordsTest, OtherCommandsTakeNamesToo) {
  name("photos", "vault = ~/photos.vault\npassprog = \"program\"\n");
  const auto parsed = [](const Args& args) {
    CLI::App app;
    std::string vault;
    CredentialOptions credential;
    add_vault(app, "VAULT", vault, "", &credential);
    credential.add_to(app);
    EXPECT_TRUE(parse(app, args));
    return std::pair(vault, credential.source.passprog + credential.keyfile.string());
  };
  EXPECT_EQ(parsed({"photos"}), std::pair(home("photos.vault"), std::string("program")));
  EXPECT_EQ(parsed({"photos", "--keyfile", "/k"}).second, "/k");
  EXPECT_EQ(parsed({"/v"}), std::pair(std::string("/v"), std::string()));
  set("VAULT", "photos");
  set("PASSPROG", "other");
  EXPECT_EQ(parsed({}), std::pair(home("photos.vault"), std::string("other")));
}

}  // namespace
}  // namespace s3oram
