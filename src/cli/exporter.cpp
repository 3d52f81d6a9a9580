// `holdfast exporter`: the numbers of heaps over HTTP, for Prometheus.
//
// One thread serves all connections. It looks at heaps when it is asked, and holds none of them open between requests.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "commands.hpp"
#include "metrics.hpp"
#include "output.hpp"

namespace holdfast_cli {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

/// Of a request, and of the wait for the next one.
constexpr std::chrono::seconds longest_wait{30};
constexpr std::chrono::milliseconds wait_for_descriptors{200};
constexpr std::size_t most_connections = 64;
constexpr std::size_t most_header_bytes = 8192;

/// The heaps, and what was seen of them before.
class watched_heaps {
public:
    explicit watched_heaps(const std::vector<std::string>& heaps) : heaps_(each_once(heaps)) {}

    [[nodiscard]] std::string text() {
        std::vector<reading> all;
        for (const std::string& each : heaps_) {
            remember(all.emplace_back(inspect(each)));
            if (all.back().glance) {
                std::ranges::move(inspect_store_files(each), std::back_inserter(all));
            }
        }
        return prometheus_text(all);
    }

private:
    struct memory {
        std::string uuid;
        std::uint64_t replacements = 0;
        std::string message;
    };

    /// Says what is wrong with a heap when it begins, not each time.
    void remember(reading& now) {
        memory& known = known_[now.heap];
        if (now.message != known.message) {
            known.message = now.message;
            fmt::print(stderr, "holdfast: {}\n",
                       now.message.empty() ? printable(now.heap) + ": can be read again" : printable(now.message));
        }
        if (now.glance && now.glance->uuid != known.uuid) {
            known.replacements += known.uuid.empty() ? 0U : 1U;
            known.uuid = now.glance->uuid;
        }
        now.replacements = known.replacements;
    }

    std::vector<std::string> heaps_;
    std::map<std::string, memory> known_;
};

using request = http::request<http::empty_body>;
using response = http::response<http::string_body>;

response answer_to(const request& asked, watched_heaps& heaps) {
    const auto say = [&asked](http::status status, std::string_view type, std::string text) {
        response made(status, asked.version(), std::move(text));
        made.set(http::field::content_type, beast::string_view(type.data(), type.size()));
        made.keep_alive(asked.keep_alive());
        made.prepare_payload();
        if (asked.method() == http::verb::head) {
            made.body().clear();  // the length stays that of the body
        }
        return made;
    };
    if (asked.method() != http::verb::get && asked.method() != http::verb::head) {
        response made = say(http::status::method_not_allowed, "text/plain; charset=utf-8", "GET or HEAD\n");
        made.set(http::field::allow, "GET, HEAD");
        return made;
    }
    const auto target = asked.target().substr(0, asked.target().find('?'));
    if (target == "/metrics") {
        return say(http::status::ok, "text/plain; version=0.0.4; charset=utf-8", heaps.text());
    }
    if (target == "/") {
        return say(http::status::ok, "text/html; charset=utf-8",
                   "<!DOCTYPE html><title>holdfast exporter</title><a href=\"/metrics\">metrics of heaps</a>\n");
    }
    return say(http::status::not_found, "text/plain; charset=utf-8", "the numbers are at /metrics\n");
}

class connection;

/// The connections there are, in the order in which the last request of each began to be waited for.
class open_connections {
public:
    using place = std::list<connection*>::iterator;

    place add(connection& one) { return all_.insert(all_.end(), &one); }
    void remove(place of) { all_.erase(of); }
    /// It waits for a request from now on.
    void note_wait(place of) { all_.splice(all_.end(), all_, of); }
    /// Clients that keep connections and ask nothing must not keep others out.
    void make_room();

private:
    std::list<connection*> all_;
};

/// One connection. Lives as long as it waits for something.
class connection : public std::enable_shared_from_this<connection> {
public:
    connection(tcp::socket socket, watched_heaps& heaps, std::shared_ptr<open_connections> all)
        : stream_(std::move(socket)), heaps_(heaps), all_(std::move(all)), place_(all_->add(*this)) {}
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() { leave(); }

    /// What it waits for ends with an error, and so does it.
    void close() {
        leave();
        stream_.close();
    }

    void read() {
        parser_.emplace();
        parser_->header_limit(most_header_bytes);
        if (place_) {
            all_->note_wait(*place_);
        }
        stream_.expires_after(longest_wait);
        http::async_read(stream_, buffer_, *parser_,
                         [self = shared_from_this()](beast::error_code failed, std::size_t) { self->answer(failed); });
    }

private:
    void answer(beast::error_code failed) {
        if (failed == http::error::end_of_stream) {
            stream_.socket().shutdown(tcp::socket::shutdown_send, failed);
            return;
        }
        if (failed) {  // what came is no request, or nothing came
            return;
        }
        answer_ = answer_to(parser_->get(), heaps_);
        serializer_.emplace(*answer_);
        stream_.expires_after(longest_wait);
        const auto written = [self = shared_from_this()](beast::error_code why, std::size_t) { self->go_on(why); };
        if (parser_->get().method() == http::verb::head) {
            http::async_write_header(stream_, *serializer_, written);
        } else {
            http::async_write(stream_, *serializer_, written);
        }
    }

    void go_on(beast::error_code failed) {
        if (failed) {
            return;
        }
        if (answer_->keep_alive()) {
            read();
            return;
        }
        stream_.socket().shutdown(tcp::socket::shutdown_send, failed);
    }

    void leave() {
        if (place_) {
            all_->remove(*std::exchange(place_, std::nullopt));
        }
    }

    beast::tcp_stream stream_;
    watched_heaps& heaps_;
    std::shared_ptr<open_connections> all_;
    std::optional<open_connections::place> place_;
    beast::flat_buffer buffer_{most_header_bytes};
    std::optional<http::request_parser<http::empty_body>> parser_;
    std::optional<response> answer_;
    std::optional<http::response_serializer<http::string_body>> serializer_;
};

void open_connections::make_room() {
    if (all_.size() >= most_connections) {
        all_.front()->close();
    }
}

class listener {
public:
    listener(asio::io_context& context, const tcp::endpoint& at, watched_heaps& heaps)
        : acceptor_(context, at), again_(context), heaps_(heaps) {}

    [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

    void accept() {
        acceptor_.async_accept([this](beast::error_code failed, tcp::socket socket) {
            if (failed == asio::error::operation_aborted) {
                return;
            }
            if (!failed) {
                connections_->make_room();
                std::make_shared<connection>(std::move(socket), heaps_, connections_)->read();
                accept();
                return;
            }
            again_.expires_after(wait_for_descriptors);
            again_.async_wait([this](beast::error_code ended) {
                if (!ended) {
                    accept();
                }
            });
        });
    }

private:
    tcp::acceptor acceptor_;
    asio::steady_timer again_;
    watched_heaps& heaps_;
    std::shared_ptr<open_connections> connections_ = std::make_shared<open_connections>();
};

/// "127.0.0.1:9633", "[::1]:9633".
tcp::endpoint endpoint_of(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    beast::error_code failed;
    const asio::ip::address address = asio::ip::make_address(host, failed);
    constexpr unsigned long most = 65535;
    const bool is_number =
        !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    if (failed || !is_number || std::stoul(port) > most) {
        throw std::runtime_error(text + ": an address and a port are wanted, as 127.0.0.1:9633 or [::1]:9633");
    }
    return {address, static_cast<asio::ip::port_type>(std::stoul(port))};
}

std::string text_of(const tcp::endpoint& at) {
    const std::string address = at.address().to_string();
    return fmt::format("{}:{}", at.address().is_v6() ? "[" + address + "]" : address, at.port());
}

}  // namespace

int serve_metrics(const std::vector<std::string>& heaps, const std::string& listen) {
    asio::io_context context(1);
    watched_heaps watched(heaps);
    const tcp::endpoint at = endpoint_of(listen);
    std::optional<listener> serving;
    try {
        serving.emplace(context, at, watched);
    } catch (const boost::system::system_error& what) {
        throw std::runtime_error(fmt::format("cannot listen at {}: {}", listen, what.code().message()));
    }
    asio::signal_set signals(context, SIGINT, SIGTERM);
    signals.async_wait([&context](beast::error_code, int) { context.stop(); });
    serving->accept();
    fmt::print("http://{}/metrics\n", text_of(serving->endpoint()));
    std::fflush(stdout);
    context.run();
    return exit_sound;
}

}  // namespace holdfast_cli
