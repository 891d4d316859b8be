// The differences between the schemes on a server. A scheme defines what a slot holds, and so what
// a query, a part of a root write and the orders of an eviction mean. Everything else that a server
// does is in Server (tree_server.h). serverd/schemes.h lists the schemes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "oramcore/protocol/messages.h"
#include "serverd/oram/eviction.h"

namespace s3oram {

/// Checks the rows of an eviction at a mirror's server. Several threads may add rows at the same
/// time.
class RowChecker {
 public:
  virtual ~RowChecker() = default;
  /// Adds the row at `index` of PathSlots::evicted(); null stands for zeros.
  virtual void add_old(std::size_t index, const std::uint8_t* row) = 0;
  /// Adds the row at place `place` of the new path, which is PathSlots::evicted() without the
  /// writes at its front.
  virtual void add_new(std::size_t place, const std::uint8_t* row) = 0;
  virtual CertifyAnswer answer(bool with_list) const = 0;
};

/// The scheme of one volume. May be used on any thread.
class ServerScheme {
 public:
  explicit ServerScheme(const VolumeDescription& volume) : volume_(volume) {}
  virtual ~ServerScheme() = default;

  // ---- retrievals

  /// Returns the coefficients of a retrieval, one for each of the path's `slots`; std::nullopt if
  /// the request is malformed.
  virtual std::optional<Bytes> coefficients(const RetrieveRequest& request,
                                            std::size_t slots) const = 0;
  /// Adds the coefficients times the rows to `sum`.
  virtual void add_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                           MutableByteSpan sum) const = 0;
  /// Returns the factor of this server's product in the sum.
  virtual std::uint8_t weight() const = 0;
  /// Returns whether this server may take part in a sum.
  virtual bool adds_up() const = 0;
  /// Returns the servers whose products may be in the sum.
  virtual Bytes summands() const = 0;

  // ---- root writes

  /// Returns the weight of part `number` of a root write in this server's slot; std::nullopt if
  /// there is no such part.
  virtual std::optional<std::uint8_t> part_weight(std::uint8_t number) const = 0;
  /// Returns the bytes of a part, which forms the end of the slot, after zeros.
  virtual std::size_t part_size() const = 0;
  /// Returns whether a root write may be given in parts instead of as a whole.
  virtual bool takes_parts() const = 0;

  // ---- evictions

  /// Makes an eviction of the volume's evictor. Errors: bad_request (the orders do not fit it).
  virtual Result<std::shared_ptr<Eviction>> make_eviction(EvictionInput input,
                                                          const EvictionHost& host) const = 0;
  /// Returns a check of an eviction's rows; null if the scheme has none.
  virtual std::unique_ptr<RowChecker> check_rows(const Seed& seed, std::size_t rows) const {
    static_cast<void>(seed), static_cast<void>(rows);
    return nullptr;
  }

 protected:
  const VolumeParams& params() const { return volume_.params; }
  Party self() const { return volume_.server; }

 private:
  const VolumeDescription volume_;
};

/// Makes the scheme of a volume. `volume` has been checked.
using ServerSchemes = std::function<std::unique_ptr<ServerScheme>(const VolumeDescription& volume)>;

}  // namespace s3oram
