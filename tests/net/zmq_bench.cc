// zmq_bench [SIZE_KIB [ROUNDS [WINDOW]]]: sends requests of SIZE KiB to a server in this process,
// which answers with the same bytes. WINDOW requests are under way at a time, over CURVE and over a
// unix socket. Client, server and ZeroMQ share the machine's cores.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/base/temporary_directory.h"
#include "tests/net/zmq_net.h"

namespace s3oram::testing {
namespace {

void measure(const char* name, Net::Link link, std::size_t size, int rounds, int window) {
  const WorkingDirectory folder;
  Net net(link, 1);
  net.start_all();
  if (!net.ask(kClient, 1, "warm up")) std::exit(1);
  auto& client = net.node(kClient);
  client.received.clear();
  const std::string text(size, 'x');
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  int answered = 0;
  for (int sent = 0; answered < rounds;) {
    for (; sent < rounds && sent - answered < window; ++sent)
      client.transport->send(1, question(text));
    if (!net.run_until([&] { return !client.received.empty(); })) std::exit(1);
    answered += static_cast<int>(client.received.size());
    client.received.clear();
    net.node(1).received.clear();
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const double cpu_ms = 1000.0 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  std::printf(
      "%s: %zu bytes, %d at a time: %.3f ms, %.3f CPU-ms a round trip, %.0f MB/s each way\n", name,
      size, window, 1000 * time.count() / rounds, cpu_ms / rounds,
      static_cast<double>(size) * rounds / 1e6 / time.count());
}

}  // namespace
}  // namespace s3oram::testing

int main(int argc, char** argv) {
  using namespace s3oram::testing;
  const std::size_t size = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 128) << 10;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 2000;
  const int window = argc > 3 ? std::atoi(argv[3]) : 8;
  measure("CURVE over TCP", Net::Link::tcp, size, rounds, window);
  measure("unix socket", Net::Link::ipc, size, rounds, window);
}
