// Fills in the options with which a command opens a volume.
#include "cli/volume_options.h"

#include "cli/command.h"

namespace s3oram {

void add_timeout(CLI::App& app, int& seconds) {
  app.add_option("--timeout", seconds, "How long to wait for servers to answer")
      ->capture_default_str()
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600));
}

Result<VolumeOptions> volume_options(const Vault& vault, int timeout_seconds, Progress& progress) {
  VolumeOptions how;
  how.deadline = std::chrono::seconds(timeout_seconds);
  how.progress = [&progress](const std::string& detail) { progress.update(detail); };
  const VaultConfig& config = vault.config();
  if (!config.local && !(config.source && config.source->volume.local)) return how;
  S3O_ASSIGN(auto serverd, program_beside("s3oramfs-serverd"));
  how.serverd = serverd;
  return how;
}

}  // namespace s3oram
