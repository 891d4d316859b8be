// Turns each request into calls of the mount, and the result into JSON.
#include "fused/daemon/control_requests.h"

#include <nlohmann/json.hpp>

#include "fused/daemon/migration_requests.h"
#include "fused/daemon/replace_server.h"

namespace s3oram {
namespace {

std::string answer_of(const Status& outcome) {
  return outcome ? control_answer({{"ok", true}}) : control_failure(outcome.error());
}

/// Returns the answer about an attempt to make everything durable.
std::string answer_of(const Status& written, const Watched& watched) {
  return answer_of(written ? written : fail(with_cause(written.error(), state_of(watched))));
}

}  // namespace

ControlHandler control_handler(const Watched& watched, Locker& locker) {
  return [&watched, &locker](const std::string& request) -> std::string {
    if (request == "status") {
      const auto links = watched.volume.server_traffic();
      return control_answer(status_json(watched.identity, state_of(watched), links));
    }
    if (request == "hurry") {
      watched.files.hurry();
      return answer_of({});
    }
    if (request == "drop") {
      watched.files.drop_clean();
      return answer_of({});
    }
    if (request == "scrub") {
      watched.volume.begin_scrub();
      return answer_of({});
    }
    if (is_replacement(request)) return replace_server(watched.volume, request);
    if (is_about_migration(request)) return answer_on_migration(watched, request);
    if (request == "backup") return answer_of(back_up_names(watched.files));
    if (request == "sync") return answer_of(sync(watched.files), watched);
    if (request == "lock") return answer_of(locker.lock(), watched);
    if (request.starts_with("unlock "))
      return control_failure({Errc::failed, watched.identity.mountpoint + " is not locked"});
    return control_failure({Errc::bad_request, fmt::format("no such request: {}", request)});
  };
}

}  // namespace s3oram
