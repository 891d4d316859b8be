// Decides which CURVE keys a listener admits.
#include "oramcore/zmq/zap.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <zmq_addon.hpp>

#include "oramcore/base/quiet_thread.h"

namespace s3oram {
namespace {

constexpr std::chrono::milliseconds kPauseAfterError{100};  // the error may recur immediately

// The frames of a request: those of a ROUTER, followed by those of RFC 27, in its order.
enum Frame : std::size_t {
  kConnection,
  kDelimiter,
  kVersion,
  kRequestId,
  kDomain,
  kAddress,  // the address of the gate
  kIdentity,
  kMechanism,
  kCredentials,
  kFrames
};

std::chrono::nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

// Uses a ROUTER because, unlike a REP, it can take the next request even if it could not answer the
// last one.
ZapHandler::ZapHandler(zmq::context_t& context, Admitted admitted,
                       std::function<std::string()> address)
    : socket_(context, zmq::socket_type::router),
      address_(std::move(address)),
      admitted_(std::move(admitted)) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  thread_ = start_quiet_thread([this] { run(); });
}

ZapHandler::~ZapHandler() { thread_.join(); }

std::string ZapHandler::user_of(Party party, const PublicKey& key) {
  return fmt::format("{} {}", party, to_text(key));
}

void ZapHandler::admit(Admitted admitted) {
  const std::lock_guard lock(mutex_);
  admitted_ = std::move(admitted);
}

void ZapHandler::run() {
  for (;;) {
    std::string what;
    try {
      answer_one();
      continue;
    } catch (const zmq::error_t& error) {
      if (error.num() == ETERM) return;
      what = error.what();
    } catch (const std::exception& error) {
      what = error.what();
    }
    if (failures_.pass(now())) spdlog::error("refused a connection: {}{}", what, failures_.more());
    std::this_thread::sleep_for(kPauseAfterError);
  }
}

void ZapHandler::answer_one() {
  std::vector<zmq::message_t> request;
  if (!zmq::recv_multipart(socket_, std::back_inserter(request))) return;
  if (request.size() <= kRequestId) return;  // too short to be answered
  const std::string user = judge(request);
  const std::string_view code = user.empty() ? "400" : "200";
  const std::string_view text = user.empty() ? "key not known here" : "OK";
  const std::vector<zmq::const_buffer> reply{zmq::buffer(request[kConnection].to_string_view()),
                                             zmq::buffer(std::string_view()),
                                             zmq::buffer(std::string_view("1.0")),
                                             zmq::buffer(request[kRequestId].to_string_view()),
                                             zmq::buffer(code),
                                             zmq::buffer(text),
                                             zmq::buffer(std::string_view(user)),
                                             zmq::buffer(std::string_view())};
  zmq::send_multipart(socket_, reply, zmq::send_flags::dontwait);
}

std::string ZapHandler::judge(const std::vector<zmq::message_t>& request) {
  PublicKey key;
  if (request.size() != kFrames || request[kVersion].to_string_view() != "1.0" ||
      request[kDomain].to_string_view() != kZapDomain ||
      request[kMechanism].to_string_view() != "CURVE" ||
      request[kCredentials].size() != key.size()) {
    warn_refused("it does not use CURVE");
    return {};
  }
  const auto* credentials = request[kCredentials].data<std::uint8_t>();
  std::copy_n(credentials, key.size(), key.begin());
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = admitted_.find(key); found != admitted_.end())
      return user_of(found->second, key);
  }
  warn_refused(
      fmt::format("key {} is not known here; if it is your client's, authorize it; if it is "
                  "another server's, list it with 's3oramfs-serverd peers'",
                  to_text(key)));
  return {};
}

// Anyone who reaches the port can cause these warnings, so their rate is limited. Otherwise the log
// could fill the disk.
void ZapHandler::warn_refused(const std::string& why) {
  if (refusals_.pass(now()))
    spdlog::warn("refused a connection from {}: {}{}", address_(), why, refusals_.more());
}

}  // namespace s3oram
