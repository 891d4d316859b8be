// Makes the orders for an eviction (eviction_orders.h).
#include "oramcore/schemes/s3oram/eviction_orders.h"

#include "oramcore/base/rules.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

// Each server's message holds its shares of all steps, one after another.
std::vector<Bytes> matrix_orders(const VolumeParams& params, const std::vector<MatrixStep>& steps,
                                 Random& random) {
  const std::size_t z = params.bucket_size;
  const std::size_t matrix = 2 * z * z;
  Bytes ones(steps.size() * matrix);
  for (std::size_t step = 0; step < steps.size(); ++step)
    for (const MatrixStep::Move& move : steps[step].moves)
      ones[step * matrix + move.from * z + move.to] = 1;
  return create_shares(params.scheme, ones, random);
}

template <class Orders>
Bytes encoded(const Orders& orders) {
  Writer writer;
  const_cast<Orders&>(orders).fields(writer);
  return writer.take();
}

/// Returns only those orders that the role may know.
SignedShuffleOrders known_to(unsigned role, SignedShuffleOrders orders) {
  switch (role) {
    case 1:
      orders.second.clear();
      orders.line_of_3.reset();
      orders.audit_mask.reset();
      if (rule_holds(Rule::hop_keys)) orders.check_1.reset();
      break;
    case 2:
      orders.third.reset();
      orders.mask_first.reset();
      if (rule_holds(Rule::hop_keys)) orders.check_2.reset();
      break;
    default:
      orders.first.reset();
      orders.mask_second.reset();
      orders.line_of_1.reset();
      orders.audit_mask.reset();
      if (rule_holds(Rule::hop_keys)) orders.check_3.reset();
  }
  return orders;
}

// pi is pi_1, then pi_2, then pi_3. pi_1 and pi_3 are random, so pi_2 reveals nothing about pi to a
// server that knows one of them.
EvictionOrders shuffle_orders(const VolumeParams& params, const Permutation& pi, Random& random,
                              unsigned tries, bool sign) {
  const Seed first = random.seed(), third = random.seed();
  Prg first_stream(first, as_bytes("pi 1")), third_stream(third, as_bytes("pi 3"));
  EvictionOrders result;
  auto& [pi_1, pi_2, pi_3] = result.hops;
  pi_1 = random_permutation(pi.size(), first_stream);
  pi_3 = random_permutation(pi.size(), third_stream);
  pi_2 = then(then(inverse(pi_1), pi), inverse(pi_3));
  // The orders of all roles together.
  SignedShuffleOrders all{{{.first = first,
                            .second = {pi_2.begin(), pi_2.end()},
                            .third = third,
                            .mask_first = random.seed(),
                            .mask_second = random.seed(),
                            .line_of_1 = random.seed(),
                            .line_of_3 = random.seed()}}};
  const bool checked = params.security == Security::malicious;
  if (checked) {
    all.check_1 = random.seed();
    all.check_2 = random.seed();
    all.check_3 = random.seed();
    all.audit_mask = random.seed();
    if (rule_holds(Rule::hop_roles))
      all.first_server = static_cast<Party>(1 + tries % params.scheme.servers);
  }
  std::array<Seed, 3> secret{};  // keys of the roles
  if (checked && sign) {
    for (Seed& key : secret) key = random.seed();
    all.sign = Seed{};
    all.verify_1 = verifying_key(secret[0]);
    all.verify_2 = verifying_key(secret[1]);
    all.verify_3 = verifying_key(secret[2]);
  }
  result.first_server = all.first_server;
  result.shuffle = all;
  for (Party server = 1; server <= params.scheme.servers; ++server) {
    SignedShuffleOrders orders = known_to(result.role_of(server), all);
    if (orders.sign) orders.sign = secret[result.role_of(server) - 1];
    result.messages.push_back(orders.sign ? encoded(orders)
                              : checked ? encoded(static_cast<const CheckedShuffleOrders&>(orders))
                                        : encoded(static_cast<const ShuffleOrders&>(orders)));
  }
  return result;
}

}  // namespace

EvictionOrders eviction_orders(const VolumeParams& params, const EvictionPlan& plan, Random& random,
                               unsigned tries, bool sign) {
  if (const auto* permutation = std::get_if<Permutation>(&plan.movement))
    return shuffle_orders(params, *permutation, random, tries, sign);
  EvictionOrders result;
  result.messages = matrix_orders(params, std::get<std::vector<MatrixStep>>(plan.movement), random);
  return result;
}

}  // namespace s3oram
