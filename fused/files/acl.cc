// Reads, checks and changes access control lists.
#include "fused/files/acl.h"

#include <algorithm>

namespace s3oram {
namespace {

constexpr std::uint32_t kAclVersion = 2, kNobody = ~std::uint32_t{0};
constexpr std::size_t kAclHeader = 4, kAclEntry = 8;
constexpr std::uint32_t kAll = 07, kModeBits = 0777;

template <class Number>
Number number_at(std::string_view text, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(text[at + i]);
  return static_cast<Number>(number);
}

template <class Number>
void append(std::string& text, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    text.push_back(static_cast<char>(number >> (8 * i)));
}

}  // namespace

Posix<Acl> Acl::parse(std::string_view attribute) {
  if (attribute.size() < kAclHeader || (attribute.size() - kAclHeader) % kAclEntry != 0 ||
      number_at<std::uint32_t>(attribute, 0) != kAclVersion)
    return posix_error(EINVAL);
  Acl acl;
  for (std::size_t at = kAclHeader; at < attribute.size(); at += kAclEntry)
    acl.entries_.push_back({number_at<std::uint16_t>(attribute, at),
                            number_at<std::uint16_t>(attribute, at + 2),
                            number_at<std::uint32_t>(attribute, at + 4)});
  if (!acl.is_valid()) return posix_error(EINVAL);
  return acl;
}

/// The entries must be in the order of their tags. The owner, the group and others must have
/// exactly one entry each. There may be one mask, and there must be one if users or groups are
/// named.
bool Acl::is_valid() const {
  const auto count = [this](Tag tag) { return std::ranges::count(entries_, tag, &Entry::tag); };
  const auto named = count(kUser) + count(kGroup);
  const auto sound = [](const Entry& entry) {
    return entry.permissions <= kAll &&
           ((entry.tag != kUser && entry.tag != kGroup) || entry.id != kNobody);
  };
  return std::ranges::is_sorted(entries_, {}, &Entry::tag) &&
         std::ranges::all_of(entries_, sound) && count(kUserObject) == 1 &&
         count(kGroupObject) == 1 && count(kOther) == 1 && count(kMask) <= 1 &&
         (named == 0 || count(kMask) == 1) && 3 + named + count(kMask) == std::ssize(entries_);
}

std::string Acl::attribute() const {
  std::string text;
  append(text, kAclVersion);
  for (const Entry& entry : entries_) {
    append(text, entry.tag);
    append(text, entry.permissions);
    append(text, entry.tag == kUser || entry.tag == kGroup ? entry.id : kNobody);
  }
  return text;
}

Acl::Entry& Acl::only(Tag tag) { return *std::ranges::find(entries_, tag, &Entry::tag); }

Acl::Entry* Acl::mask() {
  const auto found = std::ranges::find(entries_, kMask, &Entry::tag);
  return found == entries_.end() ? nullptr : &*found;
}

bool Acl::is_minimal() const { return entries_.size() == 3; }

std::uint32_t Acl::mode(std::uint32_t mode) const {
  Acl copy = *this;
  const Entry& group = copy.mask() ? *copy.mask() : copy.only(kGroupObject);
  return (mode & ~kModeBits) | copy.only(kUserObject).permissions << 6 | group.permissions << 3 |
         copy.only(kOther).permissions;
}

void Acl::change_mode(std::uint32_t mode) {
  only(kUserObject).permissions = mode >> 6 & kAll;
  (mask() ? *mask() : only(kGroupObject)).permissions = mode >> 3 & kAll;
  only(kOther).permissions = mode & kAll;
}

std::uint32_t Acl::inherit(std::uint32_t mode) {
  only(kUserObject).permissions &= mode >> 6 & kAll;
  (mask() ? *mask() : only(kGroupObject)).permissions &= mode >> 3 & kAll;
  only(kOther).permissions &= mode & kAll;
  return this->mode(mode);
}

bool Acl::translate(const std::function<std::uint32_t(std::uint32_t)>& user,
                    const std::function<std::uint32_t(std::uint32_t)>& group) {
  for (Entry& entry : entries_) {
    if (entry.tag == kUser) entry.id = user(entry.id);
    if (entry.tag == kGroup) entry.id = group(entry.id);
  }
  return std::erase_if(entries_, [](const Entry& entry) {
           return (entry.tag == kUser || entry.tag == kGroup) && entry.id == kNobody;
         }) > 0;
}

}  // namespace s3oram
