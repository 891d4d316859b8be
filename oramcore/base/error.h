// Errors are values. An Errc is also the exit code of the programs, which is a stable contract for
// scripts and listed in man/s3oramfs.1.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace s3oram {

enum class Errc : int {
  ok = 0,
  failed = 1,             // any error without a code of its own
  usage = 2,              // wrong arguments
  wrong_passphrase = 10,  // the passphrase or key file does not open this vault
  not_a_vault = 11,       // the directory holds no vault
  damaged_vault = 12,     // the vault's files contradict themselves
  vault_in_use = 13,      // another process has it open
  unreachable = 14,       // a server does not answer
  refused_key = 15,       // a server does not know this client's key
  stale_vault = 16,       // a server is ahead of this vault: an old copy, or a clone
  bad_mount_point = 17,   // missing, not a directory, or busy
  wrong_volume = 18,      // a server holds another volume, or none
  exists = 19,            // something exists already and is not overwritten
  unsupported = 20,       // made by a newer version, or not possible here
  disk_full = 21,         // no space left, on the client or a server
  corrupt = 22,           // data or an answer failed its check
  not_mounted = 23,       // umount of something that is not mounted
  unhealthy = 24,         // mounted, but something is wrong (status --check)
  servers_disagree = 25,  // servers contradict each other: one of them is faulty or lies
  // Answers between parties; users see them only inside a longer message.
  need_open = 40,    // the server was restarted: open the session again
  fenced = 41,       // a newer session has the volume
  bad_request = 42,  // malformed, or not allowed at this point of the protocol
  shutting_down = 43,
  former_view = 44,  // the server no longer holds that tree version
};

/// Says what happened, to which file, server or option, and what to do next.
struct Error {
  Errc code = Errc::failed;
  std::string message;
};

/// A T or an Error; must not be ignored. Status is a Result without a value.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};
using Status = Result<void>;

/// The result of fail(Errc::usage, "no such option: {}", name) converts to any Result.
template <class... Args>
tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

/// Returns whether a result's value may be discarded. A value that cannot be copied may not,
/// because it owns something, such as a lock, and ends with it.
template <class R>
constexpr bool may_drop_value() {
  using Value = typename R::value_type;
  if constexpr (std::is_void_v<Value>)
    return true;
  else
    return std::is_copy_constructible_v<Value>;
}

}  // namespace s3oram

/// If `expr` has an error, returns it from the enclosing function; otherwise drops the value.
#define S3O_TRY(expr)                                                                       \
  do {                                                                                      \
    auto s3o_status = (expr);                                                               \
    static_assert(::s3oram::may_drop_value<decltype(s3o_status)>(), "S3O_ASSIGN keeps it"); \
    if (!s3o_status) return ::s3oram::fail(std::move(s3o_status).error());                  \
  } while (false)
#define S3O_CO_TRY(expr)                                                                       \
  do {                                                                                         \
    auto s3o_status = (expr);                                                                  \
    static_assert(::s3oram::may_drop_value<decltype(s3o_status)>(), "S3O_CO_ASSIGN keeps it"); \
    if (!s3o_status) co_return ::s3oram::fail(std::move(s3o_status).error());                  \
  } while (false)

/// Evaluates `expr`, a Result<T>. If it has an error, returns that from the enclosing function;
/// otherwise initializes `decl` (such as `const auto name`) with its value.
#define S3O_ASSIGN(decl, ...) S3O_ASSIGN_AS(S3O_RESULT_HERE(__LINE__), return, decl, __VA_ARGS__)
#define S3O_CO_ASSIGN(decl, ...) \
  S3O_ASSIGN_AS(S3O_RESULT_HERE(__LINE__), co_return, decl, __VA_ARGS__)

// A name that occurs in no other line of the function, so that one scope can hold several
// assignments.
#define S3O_RESULT_HERE(line) S3O_RESULT_AT(line)
#define S3O_RESULT_AT(line) s3o_result_##line
#define S3O_ASSIGN_AS(result, return_, decl, ...)                 \
  auto result = __VA_ARGS__;                                      \
  if (!result) return_ ::s3oram::fail(std::move(result).error()); \
  decl = *std::move(result)
