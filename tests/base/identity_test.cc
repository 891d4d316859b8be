// Tests how root becomes another user, each time in a separate process.
#include "oramcore/base/identity.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>

namespace s3oram {
namespace {

constexpr uid_t kNobody = 65534;

/// Returns the fields of /proc/self/status.
std::map<std::string, std::string> process_status() {
  std::map<std::string, std::string> status;
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(":\t");
    if (colon != std::string::npos) status[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return status;
}

/// Returns the number of the first check that fails, or 0.
using Checks = std::function<int()>;

int in_a_process(const Checks& checks) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(checks());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become someone else";
  }
};

int rights_are_gone(SetuidPrograms setuid) {
  if (!become({kNobody, kNobody, "nobody"}, setuid)) return 1;
  const auto status = process_status();
  const std::string ids = "65534\t65534\t65534\t65534";
  if (status.at("Uid") != ids || status.at("Gid") != ids) return 2;
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    if (status.at(set).find_first_not_of('0') != std::string::npos) return 3;
  const bool dead = setuid == SetuidPrograms::dead;
  if (dead && status.at("CapBnd").find_first_not_of('0') != std::string::npos) return 4;
  if (status.at("NoNewPrivs") != (dead ? "1" : "0")) return 5;
  if (::setuid(0) == 0 || ::seteuid(0) == 0 || ::setgid(0) == 0) return 6;
  if (::open("/etc/shadow", O_RDONLY) >= 0) return 7;
  if (::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) return 8;
  return 0;
}

TEST_F(IdentityTest, RootsRightsAreGoneForGood) {
  for (const auto setuid : {SetuidPrograms::dead, SetuidPrograms::usable})
    EXPECT_EQ(in_a_process([&] { return rights_are_gone(setuid); }), 0);
}

TEST_F(IdentityTest, RootsGroupsAreGone) {
  EXPECT_EQ(in_a_process([] {
              const gid_t groups[] = {0, 4, 42};
              if (::setgroups(3, groups) != 0) return 1;
              if (!become({kNobody, kNobody, "nobody"})) return 2;
              gid_t left[64];
              const int count = ::getgroups(64, left);
              for (int i = 0; i < count; ++i)
                if (left[i] != kNobody) return 3;
              return 0;
            }),
            0);
}

TEST_F(IdentityTest, RootsEnvironmentStaysWithRoot) {
  EXPECT_EQ(in_a_process([] {
              ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
              ::setenv("LD_PRELOAD", "", 1);
              ::setenv("LC_ALL", "C", 1);
              if (!become({kNobody, kNobody, "nobody"})) return 1;
              if (std::getenv("AWS_SECRET_ACCESS_KEY") || std::getenv("LD_PRELOAD")) return 2;
              return std::getenv("LC_ALL") && std::getenv("PATH") ? 0 : 3;
            }),
            0);
}

TEST_F(IdentityTest, AUserThatTheSystemDoesNotKnowHasItsFilesGroup) {
  constexpr uid_t kUnknown = 4'000'000'000;
  const auto user = find_user(kUnknown, 4'000'000'001);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->gid, 4'000'000'001);
  EXPECT_EQ(user->name, "");
  EXPECT_EQ(in_a_process([&] {
              if (!become(*user)) return 1;
              return ::getgid() == user->gid && ::getgroups(0, nullptr) <= 1 ? 0 : 2;
            }),
            0);
  EXPECT_FALSE(find_user(kUnknown, 0)) << "root's group is for nobody else";
  EXPECT_EQ(find_user(kNobody, 0)->name, "nobody");
}

TEST_F(IdentityTest, WhoIsNotRootBecomesNobody) {
  EXPECT_EQ(in_a_process([] {
              if (::setresuid(kNobody, kNobody, kNobody) != 0) return 1;
              return become({1, 1, "daemon"}) ? 2 : 0;
            }),
            0);
}

}  // namespace
}  // namespace s3oram
