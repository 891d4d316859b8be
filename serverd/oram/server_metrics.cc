// Registers and updates a server's metrics.
#include "serverd/oram/server_metrics.h"

namespace s3oram {
namespace {

/// By MessageType. Requests that take long enough to be worth a histogram are marked.
struct KindName {
  const char* name;
  bool measured = false;
};
constexpr KindName kKinds[] = {
    {"unknown"},          {"hello"},         {"create"},       {"open"},      {"retrieve", true},
    {"write_root", true}, {"prepare", true}, {"commit", true}, {"discard"},   {"release"},
    {"subshare"},         {"reserve"},       {"damage"},       {"read_slot"}, {"heal_slot"},
    {"addend"},           {"withdraw"},      {"relay"},        {"traffic"},   {"survey"},
    {"labels"},           {"room"},          {"layout"},       {"adopt"},     {"check"},
    {"contribute"},       {"mend"},          {"digests"},      {"fits"},      {"heads"},
    {"certify", true},
};

}  // namespace

ServerMetrics::ServerMetrics(Metrics& metrics)
    : evictions(metrics.counter("s3oramfs_serverd_evictions_total", "Evictions committed.")),
      healed_slots(metrics.counter("s3oramfs_serverd_healed_slots_total",
                                   "Damaged slots rewritten, from the others' shares.")),
      sync_seconds(metrics.histogram("s3oramfs_serverd_sync_seconds",
                                     "Time that the disk took to make shares durable; one sync "
                                     "serves all writes that wait for it.")),
      store_bytes(metrics.gauge("s3oramfs_serverd_store_bytes",
                                "Disk space that the shares take, including reserved space.")),
      free_bytes(metrics.gauge("s3oramfs_serverd_store_free_bytes",
                               "Free disk space where the shares are.")),
      damaged_buckets(metrics.gauge("s3oramfs_serverd_damaged_buckets",
                                    "Buckets found damaged and not yet healed.")),
      tree_height(
          metrics.gauge("s3oramfs_serverd_tree_height", "Levels of the tree below its root.")),
      metrics_(metrics) {
  for (const KindName& kind : kKinds) {
    const Metrics::Labels label = {{"kind", kind.name}};
    Kind& made = kinds_.emplace_back();
    made.requests = &metrics.counter("s3oramfs_serverd_requests_total", "Requests handled.", label);
    made.failures = &metrics.counter("s3oramfs_serverd_request_failures_total",
                                     "Requests that ended with an error.", label);
    if (kind.measured)
      made.seconds = &metrics.histogram("s3oramfs_serverd_request_seconds",
                                        "Requests from their arrival to their answer; prepare is "
                                        "the work of an eviction.",
                                        label);
  }
}

void ServerMetrics::handled(MessageType type, Duration took, bool ended_well) {
  const auto number = static_cast<std::size_t>(type);
  const Kind& kind = kinds_[number < kinds_.size() ? number : 0];
  kind.requests->add();
  if (!ended_well) kind.failures->add();
  if (kind.seconds) kind.seconds->observe(took);
}

void ServerMetrics::traffic_with(Party party, const Traffic& traffic) {
  const Metrics::Labels label = {
      {"peer", party == kClient ? std::string("client") : std::to_string(party)}};
  metrics_.counter("s3oramfs_serverd_sent_bytes_total", "Messages to the peer.", label)
      .set(traffic.bytes_sent);
  metrics_.counter("s3oramfs_serverd_received_bytes_total", "Messages from the peer.", label)
      .set(traffic.bytes_received);
}

}  // namespace s3oram
