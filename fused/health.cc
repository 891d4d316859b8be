#include "fused/health.h"

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr double kLongEviction = 60;  // s
constexpr double kLongUnwritten = 60;

}  // namespace

double seconds(std::chrono::milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

std::vector<std::string> problems(const MountState& state) {
  const VolumeStatus& volume = state.volume;
  const FileSystemStatus& files = state.files;
  std::vector<std::string> found;
  if (!volume.failure.empty())
    found.push_back(fmt::format("the volume cannot go on: {}", volume.failure));
  for (const auto& server : volume.servers)
    if (!server.answering)
      found.push_back(
          fmt::format("{} does not answer for {}{}: reading and writing wait", server.address,
                      human_duration(server.silent_seconds),
                      server.trouble.empty() ? "" : fmt::format(" (it {})", server.trouble)));
  // Perhaps with one of those.
  for (const auto& server : volume.servers)
    if (server.answering && !server.trouble.empty())
      found.push_back(
          fmt::format("{} has trouble, and is asked again: {}", server.address, server.trouble));
  if (files.no_room_bytes > 0)
    found.push_back(fmt::format("{} cannot be written: no room", human_size(files.no_room_bytes)));
  else if (state.free_bytes < state.block_size)
    found.push_back("full: no room for another block");
  if (files.failing_bytes > files.no_room_bytes)
    found.push_back(fmt::format("{} could not be written for {}, and are tried again",
                                human_size(files.failing_bytes - files.no_room_bytes),
                                human_duration(seconds(files.failing_for))));
  if (files.damage > 0)
    found.push_back(fmt::format(
        "vault.db is damaged ({}{}): what needs that gives an error, and no backup of the names is "
        "made over the last one; unmount, and run s3oramfs fsck --repair",
        files.first_damage,
        files.damage > 1 ? fmt::format(", and {} more", files.damage - 1) : std::string()));
  if (files.lost_blocks > 0)
    found.push_back(fmt::format(
        "{} {} of files {} lost, as vault.db does not say where on the servers; once unmounted, "
        "s3oramfs fsck names the files",
        files.lost_blocks, files.lost_blocks == 1 ? "block" : "blocks",
        files.lost_blocks == 1 ? "is" : "are"));
  if (volume.unreadable > 0)
    found.push_back(
        fmt::format("{0} {1} could not be read: too few servers have {2} intact; once "
                    "unmounted, s3oramfs fsck names the files that need {2}, if any do",
                    volume.unreadable, volume.unreadable == 1 ? "block" : "blocks",
                    volume.unreadable == 1 ? "it" : "them"));
  if (volume.scrub && volume.scrub->found.lost > 0)
    found.push_back(
        fmt::format("a scrub found {} {} damaged at too many servers, and left as it was",
                    volume.scrub->found.lost, volume.scrub->found.lost == 1 ? "slot" : "slots"));
  // These two follow from what is said above, if anything is.
  if (found.empty() && volume.evicting_seconds > kLongEviction)
    found.push_back(fmt::format("eviction lags: one is under way for {}, {} due",
                                human_duration(volume.evicting_seconds), volume.evictions_due));
  if (found.empty() && seconds(files.lag) > kLongUnwritten)
    found.push_back(fmt::format("writing lags: what is {} old is not yet durable",
                                human_duration(seconds(files.lag))));
  return found;
}

}  // namespace s3oram
