// Asks the daemon of a mounted vault, over VAULT/run/control.sock. A question is one line, and its
// answer one or two (fused/daemon/control_socket.h).
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/terminal.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Longer than a daemon waits for its servers before it answers "status".
constexpr std::chrono::seconds kStatusPatience{15};

/// A question that has been sent.
class Question {
 public:
  /// Sends the question. Errors: not_mounted (no daemon listens), failed.
  static Result<Question> ask(const Vault& vault, std::string question,
                              std::chrono::seconds patience);
  /// Returns the next answer, an object. Errors: unreachable (none comes within `patience`, unless
  /// that is zero; or the daemon's process is stopped, which is reported without waiting that
  /// long), not_mounted (the daemon ended before it read the question), failed (it ended later),
  /// and errors that the daemon itself returns.
  Result<nlohmann::json> answer();
  /// Waits for at most `wait` until answer() can return immediately. Returns false if it still
  /// cannot.
  bool is_answered(std::chrono::milliseconds wait) const;
  /// Waits until answer() can return immediately. Updates `progress` meanwhile. Errors:
  /// unreachable.
  Status await(Progress& progress) const;
  /// Waits until the daemon's process is gone, for at most `most`.
  void await_exit(std::chrono::milliseconds most) const;

 private:
  Question(const Vault& vault, std::string text, std::chrono::seconds patience);
  tl::unexpected<Error> failure(Errc code) const;
  tl::unexpected<Error> silence() const;
  Status send(const Vault& vault);
  Result<std::string> receive_line();
  /// Waits until there is something to receive, and calls `meanwhile` repeatedly until then.
  /// Errors: unreachable (as in answer()).
  Status await_word(const std::function<void()>& meanwhile) const;

  std::string vault_, text_;
  std::chrono::seconds patience_;
  Descriptor socket_;
  Descriptor daemon_;   // its process
  pid_t process_ = -1;  // its number
  std::string received_;
};

/// Sends the question, and returns the answer.
Result<nlohmann::json> ask_daemon(const Vault& vault, const std::string& question,
                                  std::chrono::seconds patience = std::chrono::seconds(0));

/// Does the same for a question that takes long, and updates `progress` meanwhile. A daemon that
/// does not even answer a question about its state counts as unreachable.
Result<nlohmann::json> ask_daemon(const Vault& vault, const std::string& question,
                                  Progress& progress,
                                  std::chrono::seconds patience = std::chrono::seconds(0));

}  // namespace s3oram
