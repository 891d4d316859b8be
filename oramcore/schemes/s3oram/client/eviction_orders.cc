#include "oramcore/schemes/s3oram/client/eviction_orders.h"

#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

// All shares of one step lie one behind the other in each server's message.
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

// pi = pi_3 after pi_2 after pi_1: pi_1 and pi_3 are random, so pi_2 tells who knows one of them
// nothing of pi.
EvictionOrders shuffle_orders(const VolumeParams& params, const Permutation& pi, Random& random,
                              unsigned tries) {
  const Seed first = random.seed(), third = random.seed();
  Prg first_stream(first, as_view("pi 1")), third_stream(third, as_view("pi 3"));
  EvictionOrders result;
  auto& [pi_1, pi_2, pi_3] = result.hops;
  pi_1 = random_permutation(pi.size(), first_stream);
  pi_3 = random_permutation(pi.size(), third_stream);
  pi_2 = then(then(inverse(pi_1), pi), inverse(pi_3));
  const auto servers = params.scheme.servers;
  result.first_server = static_cast<Party>(1 + tries % servers);
  // What all roles together are told; each is told what its own may know.
  ShuffleOrders all{.first = first,
                    .second = {pi_2.begin(), pi_2.end()},
                    .third = third,
                    .mask_first = random.seed(),
                    .mask_second = random.seed(),
                    .line_of_1 = random.seed(),
                    .line_of_3 = random.seed(),
                    .check_1 = {},
                    .check_2 = {},
                    .check_3 = {},
                    .first_server = result.first_server};
  if (params.security == Security::malicious) {
    all.check_1 = random.seed();
    all.check_2 = random.seed();
    all.check_3 = random.seed();
  }
  ShuffleOrders of_1 = all, of_2 = all, of_3 = all;
  of_1.second.clear();
  of_1.line_of_3.reset();
  of_1.check_1.reset();
  of_2.third.reset();
  of_2.mask_first.reset();
  of_2.check_2.reset();
  of_3.first.reset();
  of_3.mask_second.reset();
  of_3.line_of_1.reset();
  of_3.check_3.reset();
  const ShuffleOrders* const by_role[] = {&of_1, &of_2, &of_3};
  for (Party server = 1; server <= servers; ++server) {
    const auto role = (server + servers - result.first_server) % servers;
    Writer writer;
    const_cast<ShuffleOrders*>(by_role[role])->fields(writer);
    result.messages.push_back(writer.take());
  }
  return result;
}

}  // namespace

EvictionOrders eviction_orders(const VolumeParams& params, const EvictionPlan& plan, Random& random,
                               unsigned tries) {
  if (const auto* permutation = std::get_if<Permutation>(&plan.movement))
    return shuffle_orders(params, *permutation, random, tries);
  EvictionOrders result;
  result.messages = matrix_orders(params, std::get<std::vector<MatrixStep>>(plan.movement), random);
  return result;
}

}  // namespace s3oram
