// SQLite on a SimDisk: files, locks between the connections of one life, and the shared memory of a
// WAL, all in memory.
#pragma once

#include <cstdint>
#include <string>

namespace s3oram::test {

class SimDisk;

/// Makes `disk` known to SQLite under `name`, until it is unregistered.
void register_sim_vfs(SimDisk& disk, const std::string& name);
void unregister_sim_vfs(const std::string& name);

/// From here on SQLite's own random numbers (the salts of its logs) follow from `seed`, in the
/// whole process.
void seed_sqlite(std::uint64_t seed);

}  // namespace s3oram::test
