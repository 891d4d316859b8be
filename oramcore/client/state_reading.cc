// Refuses a state, reads sessions, and deletes bad rows.
#include "oramcore/client/state_reading.h"

#include "oramcore/client/client_state.h"

namespace s3oram {

void StateReading::refuse(const char* table, const Error& error) {
  refused_ = error;
  findings_.push_back({"unusable-state",
                       fmt::format("vault.db, table {}", table),
                       error.code == Errc::unsupported
                           ? error.message
                           : error.message + ": the vault cannot be mounted; " + kMakeAnew,
                       {}});
}

void StateReading::read_sessions(std::vector<Session>& sessions) {
  read("sessions", "SELECT epoch, nonce FROM sessions ORDER BY epoch", [&](const Statement& row) {
    Session session{.epoch = static_cast<std::uint64_t>(row.integer(0))};
    const Bytes nonce = row.blob(1);
    if (row.integer(0) < 0 || nonce.size() != session.nonce.size())
      return damaged("sessions", "an impossible session");
    std::copy(nonce.begin(), nonce.end(), session.nonce.begin());
    sessions.push_back(session);
  });
  if (sessions.empty() && !refused_) damaged("sessions", "table sessions is empty");
}

Status drop_rows(Database& database, const char* table, const char* key,
                 const std::vector<std::int64_t>& keys) {
  if (keys.empty()) return {};  // older formats do not have the table
  S3O_ASSIGN(auto row, database.prepare(fmt::format("DELETE FROM {} WHERE {} = ?", table, key)));
  for (const std::int64_t value : keys) S3O_TRY(row.bind(0, value).run());
  return {};
}

}  // namespace s3oram
