#include "oramcore/net/zap.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <vector>
#include <zmq_addon.hpp>

namespace s3oram {
namespace {

// Anyone who reaches the port can cause a warning: they must not fill the disk.
constexpr std::chrono::seconds kWarningEvery{1};

// Frames of a request, in RFC 27's order.
enum Frame : std::size_t {
  kVersion,
  kRequestId,
  kDomain,
  kAddress,
  kIdentity,
  kMechanism,
  kCredentials,
  kFrames
};

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, Admitted admitted)
    : socket_(context, zmq::socket_type::rep), admitted_(std::move(admitted)) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  thread_ = std::thread([this] { run(); });
}

ZapHandler::~ZapHandler() { thread_.join(); }

void ZapHandler::admit(Admitted admitted) {
  const std::lock_guard lock(mutex_);
  admitted_ = std::move(admitted);
}

void ZapHandler::run() {
  try {
    for (;;) {
      std::vector<zmq::message_t> request;
      if (!zmq::recv_multipart(socket_, std::back_inserter(request))) continue;
      const std::string user = judge(request);
      const std::string id = request.size() > kRequestId ? request[kRequestId].to_string() : "";
      const std::string code = user.empty() ? "400" : "200";
      const std::string text = user.empty() ? "key not known here" : "OK";
      const std::vector<zmq::const_buffer> reply{zmq::buffer("1.0", 3), zmq::buffer(id),
                                                 zmq::buffer(code),     zmq::buffer(text),
                                                 zmq::buffer(user),     zmq::buffer("", 0)};
      zmq::send_multipart(socket_, reply);
    }
  } catch (const zmq::error_t& error) {
    // The socket stays, so that requests remain unanswered: nobody new is admitted.
    if (error.num() != ETERM) spdlog::critical("admitting connections failed: {}", error.what());
  }
}

std::string ZapHandler::judge(const std::vector<zmq::message_t>& request) {
  const std::string address =
      request.size() > kAddress ? request[kAddress].to_string() : std::string("?");
  PublicKey key;
  if (request.size() != kFrames || request[kVersion].to_string_view() != "1.0" ||
      request[kDomain].to_string_view() != kZapDomain ||
      request[kMechanism].to_string_view() != "CURVE" ||
      request[kCredentials].size() != key.size()) {
    warn_refused(address, "it does not use CURVE");
    return {};
  }
  const auto* credentials = request[kCredentials].data<std::uint8_t>();
  std::copy_n(credentials, key.size(), key.begin());
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = admitted_.find(key); found != admitted_.end())
      return std::to_string(found->second);
  }
  warn_refused(
      address,
      fmt::format(
          "key {} is not known here; if it is your client's, authorize it; if it is another "
          "server's, list it by 's3oramfs-serverd peers'",
          to_text(key)));
  return {};
}

void ZapHandler::warn_refused(const std::string& address, const std::string& why) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_warning_) {
    ++unreported_;
    return;
  }
  spdlog::warn("refused a connection from {}: {} ({} more refused since the last such warning)",
               address, why, unreported_);
  unreported_ = 0;
  next_warning_ = now + kWarningEvery;
}

}  // namespace s3oram
