// Prints a server's store in a few lines.
#include "serverd/store_status.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <ctime>
#include <optional>

#include "oramcore/base/human.h"
#include "serverd/store_files.h"

namespace s3oram {
namespace {

std::string date_of(std::int64_t seconds) {
  const std::time_t when = seconds;
  std::tm parts{};
  char text[32];
  ::localtime_r(&when, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts)};
}

struct Found {
  std::uint64_t bytes;  // disk space of the shares
  std::string since;    // when the file was made, where the file system knows it
};

std::optional<Found> find(const Path& file) {
  struct statx found {};
  if (::statx(AT_FDCWD, file.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &found) != 0) return {};
  const bool born = (found.stx_mask & STATX_BTIME) != 0;
  return Found{found.stx_blocks * 512,
               date_of(born ? found.stx_btime.tv_sec : found.stx_mtime.tv_sec)};
}

std::string stored(const Path& store) {
  if (const auto slots = find(store / "slots"))
    return fmt::format("{} of shares, since {}", human_size(slots->bytes), slots->since);
  return "nothing yet";
}

}  // namespace

Status show_status(const Path& store, std::ostream& out) {
  std::error_code error;
  if (!std::filesystem::is_directory(store, error)) return no_store(store);
  S3O_ASSIGN(const auto keys, read_server_key(store));
  S3O_ASSIGN(const auto servers, read_peers(store));
  S3O_ASSIGN(const auto clients, read_clients(store));
  S3O_ASSIGN(const auto invitation, read_invitation(store));
  out << fmt::format("store     {}\n", store.string());
  for (const PeerAddress& server : servers)
    if (server.key == keys.public_key)
      out << fmt::format("server    {} of {}\n", unsigned{server.party}, servers.size());
  out << fmt::format("runs      {}\n", is_running(store) ? "yes" : "no");
  if (invitation)
    out << fmt::format("waits     as server {} of {} for its client, as it was invited\n",
                       unsigned{invitation->server}, unsigned{invitation->servers});
  out << fmt::format("holds     {}\n", stored(store));
  out << fmt::format("key       {}\n", to_text(keys.public_key));
  for (const PublicKey& client : clients)
    out << fmt::format("client    {}  to compare: {}\n", to_text(client),
                       fingerprint(client, keys.public_key));
  if (clients.empty()) out << "client    none may connect yet: s3oramfs-serverd authorize\n";
  for (const PeerAddress& server : servers) out << fmt::format("peer      {}\n", to_text(server));
  if (servers.empty() && !invitation) out << "peer      none yet: s3oramfs-serverd peers\n";
  return {};
}

}  // namespace s3oram
