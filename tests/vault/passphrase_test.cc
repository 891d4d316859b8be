// Tests from where passphrases are read, and what happens on a terminal.
#include "oramcore/vault/passphrase.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class Passphrase : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("CREDENTIALS_DIRECTORY"); }
  fs::path file(const std::string& name, const std::string& content) const {
    std::ofstream(root_ / name) << content;
    return root_ / name;
  }
  static Result<std::string> read(const PassphraseSource& source) {
    return read_passphrase(source, "Passphrase: ");
  }
  static void refused(const PassphraseSource& source, Errc code, const std::string& word) {
    const auto text = read(source);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, code) << text.error().message;
    EXPECT_NE(text.error().message.find(word), std::string::npos) << text.error().message;
  }

  TemporaryDirectory root_;
};

TEST_F(Passphrase, IsTheFirstLineOfAFile) {
  EXPECT_EQ(read({file("a", "one\ntwo\n"), ""}).value(), "one");
  EXPECT_EQ(read({file("b", " with blanks "), ""}).value(), " with blanks ");
  EXPECT_EQ(read({file("c", "dos\r\n"), ""}).value(), "dos");
  EXPECT_EQ(read_new_passphrase({file("a", "one\n"), ""}).value(), "one");
  refused({file("empty", ""), ""}, Errc::usage, "empty");
  refused({file("line", "\nsecond\n"), ""}, Errc::usage, "line");
  refused({file("long", std::string(1025, 'x')), ""}, Errc::usage, "long");
  refused({root_ / "missing", ""}, Errc::failed, "missing");
  refused({root_.path(), ""}, Errc::failed, root_.path().string());
}

TEST_F(Passphrase, IsTheFirstLineThatAProgramWrites) {
  EXPECT_EQ(read({{}, "echo one; echo two"}).value(), "one");
  EXPECT_EQ(read({{}, "printf '%s' 'no end'"}).value(), "no end");
  EXPECT_EQ(read({{}, "head -c 1000000 /dev/zero | tr '\\0' 'x' | head -c 9; yes"}).error().code,
            Errc::failed)
      << "a program that never ends writing is ended, and did not end well";
  refused({{}, "exit 3"}, Errc::failed, "code 3");
  refused({{}, "echo one; false"}, Errc::failed, "`echo one; false`");
  refused({{}, "kill -KILL $$"}, Errc::failed, "signal 9");
  refused({{}, ":"}, Errc::usage, "`:`");
}

TEST_F(Passphrase, ComesFromSystemdIfNothingElseIsGiven) {
  file(kPassphraseCredential, "from systemd\n");
  ::setenv("CREDENTIALS_DIRECTORY", root_.path().c_str(), 1);
  EXPECT_EQ(read({}).value(), "from systemd");
  EXPECT_EQ(read({file("a", "given\n"), ""}).value(), "given");
  EXPECT_EQ(read({{}, "echo given"}).value(), "given");
  file(kPassphraseCredential, "");
  refused({}, Errc::usage, kPassphraseCredential);
}

// A process that asks for a passphrase on its own terminal; the test holds the other end.
class Asking {
 public:
  Asking() {
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      const auto text = read_passphrase({}, "Passphrase: ");
      ::_exit(!text ? static_cast<int>(text.error().code) : *text == "secret" ? 0 : 1);
    }
    for (char c = 0; !shown_.ends_with(": ") && ::read(terminal_, &c, 1) == 1;) shown_ += c;
    EXPECT_EQ(shown_, "Passphrase: ");
    EXPECT_FALSE(echoes());
  }
  ~Asking() { ::close(terminal_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  void type(const std::string& text) const {
    ASSERT_EQ(::write(terminal_, text.data(), text.size()), std::ssize(text));
  }
  void send(int signal) const { ASSERT_EQ(::kill(child_, signal), 0); }
  bool echoes() const {
    termios state{};
    EXPECT_EQ(::tcgetattr(terminal_, &state), 0);
    return (state.c_lflag & ECHO) != 0;
  }
  /// Returns how it ended, as waitpid() says.
  int end() const {
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_TRUE(echoes());
    return status;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string shown_;
};

TEST_F(Passphrase, IsAskedForOnTheTerminal) {
  const auto code_after = [](const std::string& typed) {
    const Asking asking;
    asking.type(typed);
    const int status = asking.end();
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(code_after("secret\n"), 0);
  for (const char* typed : {"\n", "\x03", "sec\x03", "\x04"})
    EXPECT_EQ(code_after(typed), static_cast<int>(Errc::usage)) << typed;
}

TEST_F(Passphrase, AnAskingProcessThatIsEndedLeavesTheTerminalAsItWas) {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
    const Asking asking;
    asking.type("half a word");
    asking.send(signal);
    const int status = asking.end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal;
  }
}

TEST_F(Passphrase, ASecretThatOthersMayReadIsToldOf) {
  const fs::path secret = file("secret", "x");
  for (const mode_t mode : {0600, 0400, 0700}) {
    ASSERT_EQ(::chmod(secret.c_str(), mode), 0);
    EXPECT_EQ(exposure_of(secret), "");
  }
  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    ASSERT_EQ(::chmod(secret.c_str(), mode), 0);
    EXPECT_NE(exposure_of(secret).find("chmod 600 " + secret.string()), std::string::npos);
  }
  EXPECT_EQ(exposure_of({}), "");
  EXPECT_EQ(exposure_of(root_ / "missing"), "");
}

}  // namespace
}  // namespace s3oram
