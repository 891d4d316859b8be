// A hint at passphrases that somebody who has the vault may guess.
#pragma once

#include <string>
#include <string_view>

namespace s3oram {

/// Returns why `passphrase` may be guessed, as a sentence to show, which holds nothing of it; empty
/// if it seems strong. It is an estimate: it knows the commonest passphrases, repetitions and
/// sequences, and takes all else for chosen at random.
std::string weakness_of(std::string_view passphrase);

}  // namespace s3oram
