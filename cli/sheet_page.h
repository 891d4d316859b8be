// The recovery sheet: the data that restores a lost vault, as a page for paper.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns whether the sheet in `file` should be a page with QR codes (.html) rather than plain
/// text.
bool is_sheet_page(const std::string& file);

/// Returns the sheet of the vault for `recovery`, the text of Vault::recovery(), as a page with QR
/// codes or as text. Errors: those of qr_code().
Result<std::string> sheet_of(const Vault& vault, const std::string& recovery, bool page);

}  // namespace s3oram
