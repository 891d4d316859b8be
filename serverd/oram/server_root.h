// One server's part in root writes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "serverd/oram/server_state.h"

namespace s3oram {

class ServerRoot {
 public:
  explicit ServerRoot(ServerState& state) : state_(state) {}

  Task<Result<Bytes>> write_root(WriteRootRequest request, Payload&);
  /// Takes a part of a root write that another server relays, and answers when the write is
  /// durable.
  Task<Result<Bytes>> receive(Party from, Payload& request);
  /// Writes a slot of the root buffer durably, as it is in memory.
  Task<Status> write_to_buffer(std::uint16_t slot, std::uint64_t access);
  /// Writes a slot so that it survives a power cut.
  Task<Status> write_durably(BucketVersionNumber bucket_version, std::uint16_t slot, ByteSpan share,
                             std::uint64_t stamp);
  void forget_relayed() { relayed_.clear(); }

 private:
  Task<Status> relay_part(const WriteRootRequest& request);
  Task<Status> relay_to(Party receiver, RelayRequest relayed);
  /// Returns the share that the request gives, or the share made of its parts once all of them have
  /// come; std::nullopt if the slot was written meanwhile.
  Task<Result<std::optional<Bytes>>> share_of(const WriteRootRequest& request);
  Status check_write_number(WriteNumber write_number, std::uint64_t access) const;

  ServerState& state_;
  std::map<std::pair<WriteNumber, std::uint64_t>, Payload>
      relayed_;                          // RelayRequest, by root write number and access
  std::map<Party, std::size_t> relays_;  // by sender: how many parts wait for their write
};

}  // namespace s3oram
