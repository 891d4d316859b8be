// s3oramfs status: a mounted vault's daemon is asked; of another only the configuration is shown.
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/control.h"
#include "cli/mount_table.h"
#include "cli/size.h"

namespace s3oram {
namespace {

using nlohmann::ordered_json;

ordered_json describe(const Vault& vault) {
  const VaultConfig& config = vault.config();
  ordered_json status;
  status["vault"] = vault.directory().string();
  status["ready"] = config.ready;
  status["mounted"] = false;
  status["local"] = config.local;
  status["privacy_threshold"] = config.params.scheme.privacy;
  status["block_size"] = config.params.block_size;
  status["bucket_size"] = config.params.bucket_size;
  status["evict_every"] = config.params.evict_every;
  status["evictor"] = name_of(kEvictors, config.params.evictor);
  status["privacy"] = name_of(kPrivacies, config.params.privacy);
  status["servers"] = ordered_json::array();
  for (const ServerAddress& server : config.servers)
    status["servers"].push_back({{"address", config.local ? "local" : server.host_port}});
  return status;
}

// Members that an older or newer daemon does not send count as zero or empty.
std::uint64_t number(const ordered_json& object, const char* group, const char* name) {
  const auto at = object.find(group);
  if (at == object.end() || !at->is_object()) return 0;
  return at->value(name, std::uint64_t{0});
}

void print_server(const ordered_json& server, bool mounted) {
  std::cout << "  " << server.value("address", "");
  if (mounted)
    std::cout << fmt::format("  {}, {} sent, {} received",
                             server.value("answering", false) ? "answering" : "NOT ANSWERING",
                             human_size(server.value("bytes_sent", std::uint64_t{0})),
                             human_size(server.value("bytes_received", std::uint64_t{0})));
  if (const unsigned restarts = server.value("restarts", 0U); restarts > 0)
    std::cout << fmt::format(", ended by itself {} {}", restarts, restarts == 1 ? "time" : "times");
  std::cout << "\n";
}

void print(const ordered_json& status) {
  const bool mounted = status["mounted"].get<bool>();
  std::cout << "vault     " << status["vault"].get<std::string>() << "\n";
  if (mounted)
    std::cout << fmt::format("mounted   on {}, by process {}\n", status.value("mountpoint", ""),
                             status.value("pid", 0));
  else
    std::cout << (status["ready"].get<bool>() ? "mounted   no\n"
                                              : "mounted   no; unfinished: run init again\n");
  const auto block = status["block_size"].get<std::uint64_t>();
  std::cout << fmt::format("blocks    of {}, {} slots a bucket, an eviction every {} accesses\n",
                           human_size(block), status["bucket_size"].get<unsigned>(),
                           status["evict_every"].get<unsigned>());
  if (mounted) {
    const auto blocks = number(status, "volume", "blocks");
    std::cout << fmt::format(
        "content   {} files, {} in {} blocks; room for {} before the tree grows\n",
        number(status, "files", "inodes"), human_size(blocks * block), blocks,
        number(status, "volume", "capacity"));
    std::cout << fmt::format("unwritten {} in memory; {} accesses not committed\n",
                             human_size(number(status, "cache", "dirty_bytes")),
                             number(status, "volume", "uncommitted"));
    std::cout << fmt::format("traffic   {} accesses, {} evictions, {} blocks in the stash\n",
                             number(status, "volume", "accesses"),
                             number(status, "volume", "evictions"),
                             number(status, "volume", "stash"));
  }
  std::cout << fmt::format("servers   {}, of which any {} learn nothing\n",
                           status["servers"].size(), status["privacy_threshold"].get<unsigned>());
  for (const ordered_json& server : status["servers"]) print_server(server, mounted);
}

}  // namespace

Status run_status(const Args& args) {
  CLI::App app("Shows a vault: its servers, its space, and what is not yet written.",
               "s3oramfs status");
  std::string name;
  bool as_json = false;
  app.add_option("VAULT", name, "The vault, or the directory where it is mounted")->required();
  app.add_flag("--json", as_json, "As JSON, for programs");
  auto parsed = parse(app, args);
  if (!parsed) return fail(std::move(parsed).error());
  if (!*parsed) return {};

  const auto mount = find_mount(name);
  auto vault = Vault::find(mount ? mount->vault : std::filesystem::path(name));
  if (!vault) return fail(std::move(vault).error());
  ordered_json status = describe(*vault);
  auto answer = ask_daemon(*vault, "status");
  if (answer) {
    answer->erase("ok");
    status.update(ordered_json(*answer));
    status["mounted"] = true;
  } else if (answer.error().code != Errc::not_mounted) {
    return fail(std::move(answer).error());
  }
  if (as_json)
    std::cout << status.dump(2) << "\n";
  else
    print(status);
  return {};
}

}  // namespace s3oram
