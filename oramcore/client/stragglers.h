// Questions that all servers which take part in an eviction answer together. One that answers much
// later than the others is not waited for: it is left out, or dropped if it only follows.
#pragma once

#include <memory>
#include <string>

#include "oramcore/client/attendance.h"
#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class Stragglers {
 public:
  Stragglers(VolumeState& state, Attendance& attendance) : state_(state), attendance_(attendance) {}

  struct Question {
    // Servers that have not answered yet. The followers are all that take part and are not in step.
    Bytes members, followers;
    Duration begun{};
    std::size_t spare = 0;  // how many members the volume can do without
    bool several_expected = false;
  };
  /// Begins a question to the servers that take part now.
  std::shared_ptr<Question> begin() const;
  void answered(const std::shared_ptr<Question>& question, Party server);
  /// Sends the same message to all servers that take part, and waits for them. Returns the first
  /// error of a server that is not left out when it fails.
  Task<Status> ask_all(MessageType type, Bytes message);

 private:
  Task<Status> ask(Party server, MessageType type, Bytes message,
                   std::shared_ptr<Question> question);
  /// Does without the servers in `late` that have not answered after `patience` more.
  Task<void> expect(std::shared_ptr<Question> question, Bytes late, std::string why,
                    Duration patience);

  VolumeState& state_;
  Attendance& attendance_;
};

}  // namespace s3oram
