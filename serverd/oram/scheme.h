// What differs between the schemes on a server: what a slot holds decides what a query, a part of a
// root write and the orders of an eviction mean. Everything else a server does is Server's
// (server.h). The programs say which schemes there are (serverd/schemes.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "oramcore/protocol/messages.h"
#include "serverd/oram/eviction.h"

namespace s3oram {

/// How a mirror's server checks an eviction's rows. Threads may add rows at the same time.
class RowChecker {
 public:
  virtual ~RowChecker() = default;
  /// The row at `index` of PathSlots::evicted(); null: zeros.
  virtual void add_old(std::size_t index, const std::uint8_t* row) = 0;
  /// The row at place `place` of the new path: PathSlots::evicted() without the writes in front.
  virtual void add_new(std::size_t place, const std::uint8_t* row) = 0;
  virtual CertifyAnswer answer(bool with_list) const = 0;
};

/// Of one volume. After construction any thread may use it.
class ServerScheme {
 public:
  explicit ServerScheme(const VolumeDescription& volume) : volume_(volume) {}
  virtual ~ServerScheme() = default;

  // ---- retrievals

  /// A retrieval's coefficients, one for each of the path's `slots`; std::nullopt if the request is
  /// malformed.
  virtual std::optional<Bytes> coefficients(const RetrieveRequest& request,
                                            std::size_t slots) const = 0;
  /// sum += coefficients times rows.
  virtual void add_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                           MutableByteSpan sum) const = 0;
  /// The factor of this server's product in the sum.
  virtual std::uint8_t weight() const = 0;
  /// Whether this server may take part in a sum.
  virtual bool adds_up() const = 0;
  /// The servers whose products the sum may have, and how many of them it has.
  virtual Bytes summands() const = 0;

  // ---- root writes

  /// Of a part that a root write consists of: its weight in this server's slot; std::nullopt if
  /// there is no such part.
  virtual std::optional<std::uint8_t> part_weight(std::uint8_t number) const = 0;
  /// Bytes of a part: it is the slot's end, behind zeros.
  virtual std::size_t part_size() const = 0;
  /// Whether parts can be given instead of the whole.
  virtual bool takes_parts() const = 0;

  // ---- evictions

  /// The volume's evictor. Errors: bad_request, if the orders are none for it.
  virtual Result<std::shared_ptr<Eviction>> make_eviction(EvictionInput input,
                                                          const EvictionHost& host) const = 0;
  /// Null where the scheme has no such check.
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

/// The scheme of a volume. `volume` has been checked.
using ServerSchemes = std::function<std::unique_ptr<ServerScheme>(const VolumeDescription& volume)>;

}  // namespace s3oram
