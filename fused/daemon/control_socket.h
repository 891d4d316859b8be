// The daemon's control socket: each request is a line, each answer a line of JSON. It serves
// `s3oramfs status`, `umount` ...
//   "status"  {"ok":true, ...}
//   "sync"    {"ok":true} when everything is durable
//   "backup"  {"ok":true} when the servers keep all names as they are now
//   "scrub"   {"ok":true}; a scrub begins at all servers: see "status"
//   "replace-server N HOST:PORT,KEY"
//             {"ok":true,"untold":[...]} when another machine has the place of server N; a scrub of
//             it begins: see "status". "untold": servers that do not know of it yet
//   "migrate RATE"
//             {"ok":true} when blocks move from the volume to the one in next/: see "status". RATE:
//             bytes a second, 0 for no bound
//   "migrate-rate RATE"
//             {"ok":true} when that rate has changed
//   "hurry"   {"ok":true}; the daemon no longer waits for silent servers (FileSystem::hurry())
//   "drop"    {"ok":true}; contents that are durable are dropped from memory
//   "lock"    {"ok":true} when everything is durable and the mount is about to be locked; until
//             "status" has "locked", no request is answered
//   "unlock KIND SECRET"  {"ok":true} when the mount is no longer locked. KIND: "passphrase" or
//             "key_file"; SECRET: its bytes in hexadecimal, or nothing for a vault without one
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

/// Answers one request with one JSON text. Called from several threads.
using ControlHandler = std::function<std::string(const std::string& request)>;

/// Returns an answer as text. Bytes that are not UTF-8, as directory names may contain, become
/// U+FFFD.
std::string control_answer(const nlohmann::json& answer);
/// Returns the answer for a failure.
std::string control_failure(const Error& error);

/// Bounds the requests under way or waiting, and the connections that wait for the end, because
/// each takes a descriptor. A request above the bound gets a failure; a connection above it that
/// waits for the end closes the oldest such connection.
inline constexpr std::size_t kMostConnections = 64;

/// The connections that have sent "end". May be used on any thread.
class LastWord {
 public:
  void keep(Descriptor connection);
  /// Sends the outcome to all of them. Called once nothing of the vault is in use.
  void say(const Status& outcome);
  std::size_t waiting() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Descriptor> waiting_;
};

class ControlSocket {
 public:
  /// Listens at `path` (mode 0600), which must be short (see sun_path) and so is best relative to
  /// the current directory. Replaces a socket left behind by a dead daemon. Starts a few answering
  /// threads immediately, so that requests are answered even if the system refuses more threads
  /// later. Errors: failed.
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
  Descriptor stop_[2];  // a pipe; readable once the socket must close

  std::mutex mutex_;  // guards the members below, except the threads
  std::condition_variable asked_;
  std::deque<Descriptor> waiting_;  // connections that wait for an answer
  std::size_t serving_ = 0;         // threads that answer one
  bool ending_ = false;
  std::vector<std::thread> answering_;  // used only by the listener, once it runs
  std::thread listener_;
};

}  // namespace s3oram
