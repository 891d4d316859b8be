// The daemon's control socket: one line in, one JSON line out, for `s3oramfs status`, `umount` ...
//   "status"  {"ok":true, ...}
//   "sync"    {"ok":true} when everything is durable
//   "backup"  {"ok":true} when the servers keep all names as they are now
//   "scrub"   {"ok":true}; all servers begin to look at all that they hold: see "status"
//   "hurry"   {"ok":true}; silent servers are waited for no longer (FileSystem::hurry())
//   "drop"    {"ok":true}; contents that are durable have left the memory
//   "end"     {"ok":true}, and a second line when the daemon has ended: {"ok":true} if everything
//             is durable; no second line if it was killed
//   failure   {"ok":false,"code":N,"message":"..."}, N an Errc
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Answers one request with one JSON text; called from several threads.
using ControlHandler = std::function<std::string(const std::string& request)>;

/// An answer as text. Bytes that are not UTF-8, as folders' names may have, become U+FFFD.
std::string control_answer(const nlohmann::json& answer);
/// That of a failure.
std::string control_failure(const Error& error);

/// Questions under way or waiting at a time, and those who wait for the end: each has a descriptor.
/// A question more is answered by a failure; of those who wait for the end the oldest has to go.
inline constexpr std::size_t kMostConnections = 64;

/// Those who have asked for the "end". Any thread.
class LastWord {
 public:
  void keep(Descriptor connection);
  /// Once nothing of the vault is in use any more.
  void say(const Status& outcome);
  std::size_t waiting() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Descriptor> waiting_;
};

class ControlSocket {
 public:
  /// Listens at `path` (mode 0600), which must be short (see sun_path): relative to the current
  /// folder at best. A socket left behind by a dead daemon is replaced. A few threads that answer
  /// are started at once, so that questions are answered where no more can be had later. Errors:
  /// failed.
  static Result<std::unique_ptr<ControlSocket>> create(const std::string& path,
                                                       ControlHandler handler, LastWord& last_word);
  /// Waits for the running answers and removes the socket.
  ~ControlSocket();

 private:
  explicit ControlSocket(LastWord& last_word) : last_word_(last_word) {}
  Status start_threads();
  Status add_thread();
  void listen();
  void take(Descriptor connection);
  void answer();
  void serve(Descriptor connection) const;

  std::string path_;
  ControlHandler handler_;
  LastWord& last_word_;
  Descriptor socket_;
  Descriptor stop_[2];  // a pipe: readable once the socket shall close

  std::mutex mutex_;  // guards what follows, but the threads
  std::condition_variable asked_;
  std::deque<Descriptor> waiting_;  // for an answer
  unsigned idle_ = 0;               // threads that wait for a question
  bool ending_ = false;
  std::vector<std::thread> answering_;  // the listener's, once it runs
  std::thread listener_;
};

}  // namespace s3oram
