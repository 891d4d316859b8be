// link ADDRESS PORT TARGET: a network link. Passes on everything that reaches ADDRESS:PORT to
// ADDRESS:TARGET, and the answers back. While the program is stopped (SIGSTOP), the link swallows
// everything; once it is killed, the link is cut.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <iostream>

#include "oramcore/base/async.h"
#include "oramcore/base/bytes.h"

namespace s3oram {
namespace {

using asio::ip::tcp;
using Socket = std::shared_ptr<tcp::socket>;

Task<void> carry(Socket from, Socket to) {
  Bytes buffer(1 << 16);
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  while (!error) {
    const std::size_t got = co_await from->async_read_some(asio::buffer(buffer), token);
    if (!error) co_await asio::async_write(*to, asio::buffer(buffer, got), token);
  }
  boost::system::error_code ignored;
  from->close(ignored);
  to->close(ignored);
}

Task<void> connect(Executor executor, Socket client, tcp::endpoint target) {
  const auto server = std::make_shared<tcp::socket>(executor);
  boost::system::error_code error;
  co_await server->async_connect(target, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  client->set_option(tcp::no_delay(true));
  server->set_option(tcp::no_delay(true));
  spawn(executor, carry(client, server));
  spawn(executor, carry(server, client));
}

Task<void> accept(Executor executor, tcp::acceptor& acceptor, tcp::endpoint target) {
  for (;;) {
    const auto client = std::make_shared<tcp::socket>(executor);
    boost::system::error_code error;
    co_await acceptor.async_accept(*client, asio::redirect_error(asio::use_awaitable, error));
    if (!error) spawn(executor, connect(executor, client, target));
  }
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: link ADDRESS PORT TARGET\n";
    return 2;
  }
  const auto here = asio::ip::make_address_v4(argv[1]);
  const tcp::endpoint own(here, static_cast<std::uint16_t>(std::stoul(argv[2])));
  const tcp::endpoint target(here, static_cast<std::uint16_t>(std::stoul(argv[3])));
  asio::io_context io;
  tcp::acceptor acceptor(io, own);
  spawn(io.get_executor(), accept(io.get_executor(), acceptor, target));
  io.run();
  return 0;
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  try {
    return s3oram::main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "link: " << error.what() << "\n";
    return 1;
  }
}
