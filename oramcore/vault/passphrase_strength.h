// Warns about passphrases that someone who has the vault may guess.
#pragma once

#include <string>
#include <string_view>

namespace s3oram {

/// Returns why `passphrase` may be guessed, as a sentence for the user that contains no part of it;
/// empty if it seems strong. This is an estimate: it recognises the most common passphrases,
/// repetitions and sequences, and assumes that everything else was chosen at random.
std::string weakness_of(std::string_view passphrase);

}  // namespace s3oram
