// One line in, one JSON text out.
#include "fused/daemon/control_requests.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "fused/daemon/replace_server.h"

namespace s3oram {
namespace {

std::string answer_of(const Status& outcome) {
  return outcome ? control_answer({{"ok", true}}) : control_failure(outcome.error());
}

Status back_up(FileSystem& files) {
  const auto made = files.back_up();
  if (made) return {};
  if (made.error() == EROFS)
    return fail(Errc::unsupported, "no backup is made: it is mounted read-only");
  if (made.error() == EUCLEAN)
    return fail(Errc::damaged_vault,
                "no backup is made, because vault.db is damaged ({}), and the last one stays as it "
                "is: unmount, and run s3oramfs fsck --repair",
                files.status().first_damage);
  return fail(code_of_barrier(made.error()), "no backup could be made: {}; it is tried again",
              std::strerror(made.error()));
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
    if (request == "backup") return answer_of(back_up(watched.files));
    if (request == "sync") return answer_of(sync(watched.files));
    if (request == "lock") return answer_of(locker.lock());
    if (request.starts_with("unlock "))
      return control_failure({Errc::failed, watched.identity.mountpoint + " is not locked"});
    return control_failure({Errc::bad_request, fmt::format("no such request: {}", request)});
  };
}

}  // namespace s3oram
