// `holdfast exporter`, of heaps and stores, asked as Prometheus asks, and as a port is asked by others.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/store.hpp>
#include <holdfast/store_in_heap.hpp>
#include <holdfast/transaction.hpp>
#include <netinet/in.h>

#include "base/process_test_support.hpp"
#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// A TCP connection to a port of this machine.
class connection {
public:
    explicit connection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        constexpr timeval longest{60, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(port);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
            ADD_FAILURE() << "nobody listens at " << port;
        }
    }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() { ::close(socket_); }

    void say(const std::string& text) const {
        EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
    /// All until the other side closes, or until `end` has come.
    [[nodiscard]] std::string hear(const std::string& end = {}) const {
        std::string heard;
        char bytes[4096];
        for (;;) {
            const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
            if (count <= 0) {
                return heard;
            }
            heard.append(bytes, static_cast<std::size_t>(count));
            if (!end.empty() && heard.ends_with(end)) {
                return heard;
            }
        }
    }

private:
    int socket_;
};

/// The program, and its port. It ends with this object.
class exporter {
public:
    explicit exporter(const std::vector<std::string>& heaps, const std::string& listen = "127.0.0.1:0") {
        int ends[2];
        EXPECT_EQ(::pipe(ends), 0);
        process_.emplace([&] {
            ::dup2(ends[1], STDOUT_FILENO);
            ::close(ends[0]);
            ::close(ends[1]);
            std::vector<std::string> words{HOLDFAST_PROGRAM, "exporter", "--listen", listen};
            words.insert(words.end(), heaps.begin(), heaps.end());
            std::vector<char*> argv;
            for (std::string& word : words) {
                argv.push_back(word.data());
            }
            argv.push_back(nullptr);
            ::execv(HOLDFAST_PROGRAM, argv.data());
            return 127;
        });
        ::close(ends[1]);
        std::string line;
        for (char byte = 0; ::read(ends[0], &byte, 1) == 1 && byte != '\n';) {
            line += byte;
        }
        ::close(ends[0]);
        EXPECT_THAT(line, AllOf(StartsWith("http://127.0.0.1:"), EndsWith("/metrics")));
        port_ = static_cast<std::uint16_t>(std::stoi(line.substr(std::string("http://127.0.0.1:").size())));
    }

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::string answer_to(const std::string& text) const {
        const connection made(port_);
        made.say(text);
        return made.hear();
    }
    [[nodiscard]] std::string metrics() const {
        const std::string answer = answer_to("GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
        EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
        return answer.substr(answer.find("\r\n\r\n") + 4);
    }
    /// Of the first heap.
    [[nodiscard]] double number(const std::string& name) const {
        const std::string all = metrics();
        const std::size_t at = all.find("\n" + name + "{");
        if (at == std::string::npos) {
            ADD_FAILURE() << "no " << name << " in\n" << all;
            return -1;
        }
        return std::stod(all.substr(all.find("} ", at) + 2));
    }
    base::process_end end() {
        process_->send(SIGTERM);
        return process_->wait();
    }

private:
    std::optional<base::child_process> process_;
    std::uint16_t port_ = 0;
};

class cli_exporter : public ::testing::Test {
protected:
    [[nodiscard]] std::string line(const std::string& name, const std::string& rest) const {
        return fmt::format("\n{}{{heap=\"{}\"{}\n", name, heap_, rest);
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
};

TEST_F(cli_exporter, counts_what_a_writer_and_its_readers_do) {
    manager writer(create_only, heap_, small_segments());
    auto& number = *writer.construct<int>("number")(0);
    writer.commit();
    exporter asked({heap_});
    EXPECT_THAT(asked.metrics(),
                AllOf(StartsWith("# HELP holdfast_up Whether the files of the heap or store could be read.\n"
                                 "# TYPE holdfast_up gauge\nholdfast_up{heap=\"" +
                                 heap_ + "\"} 1\n"),
                      HasSubstr(line("holdfast_state", ",state=\"open\"} 1")),
                      HasSubstr(line("holdfast_info",
                                     ",uuid=\"" + writer.get_uuid() + "\",format=\"2\",durability=\"commit\"} 1"))));
    const double before = asked.number("holdfast_commits_total");
    EXPECT_EQ(before, static_cast<double>(writer.version()));
    const double syncs = asked.number("holdfast_log_syncs_total");
    const double bytes = asked.number("holdfast_log_written_bytes_total");
    {
        const manager reader(open_read_only, heap_);
        for (int i = 0; i < 10; ++i) {
            writer.transact([&] { ++number; });
        }
        EXPECT_EQ(asked.number("holdfast_readers"), 1);
        EXPECT_EQ(asked.number("holdfast_reader_lag_commits"), 10);
    }
    EXPECT_EQ(asked.number("holdfast_readers"), 0);
    EXPECT_EQ(asked.number("holdfast_commits_total"), before + 10);
    EXPECT_EQ(asked.number("holdfast_log_syncs_total"), syncs + 10) << "each waited for its own";
    EXPECT_GE(asked.number("holdfast_log_written_bytes_total"), bytes + 10 * 4096);
    EXPECT_GT(asked.number("holdfast_log_sync_seconds_total"), 0);
    EXPECT_EQ(asked.number("holdfast_writers"), 1);
    EXPECT_EQ(asked.number("holdfast_user_bytes"), static_cast<double>(writer.statistics().user_bytes));
    EXPECT_EQ(asked.number("holdfast_charged_bytes"), static_cast<double>(writer.statistics().charged_bytes));
    EXPECT_GT(asked.number("holdfast_log_charged_bytes"), 0);
    EXPECT_GT(asked.number("holdfast_disk_available_bytes"), 0);
    EXPECT_EQ(asked.end().exit_status(), 0);
}

TEST_F(cli_exporter, counts_records_of_durability_atomic) {
    open_options options = small_segments();
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    manager writer(create_only, heap_, options);
    const exporter asked({heap_});
    EXPECT_THAT(asked.metrics(), AllOf(HasSubstr("durability=\"atomic\""), Not(HasSubstr("holdfast_log_syncs_total"))));
    for (int i = 0; i < 200; ++i) {
        static_cast<void>(writer.allocate_to(writer.root(static_cast<std::size_t>(i)), 100));
    }
    EXPECT_GE(asked.number("holdfast_atomic_records_total"), 64) << "told after every 64";
}

/// A look at the files is no lock: a writer of any durability opens the heap at each moment.
TEST_F(cli_exporter, refuses_no_writer) {
    manager(create_only, heap_, small_segments()).close();
    const exporter asked({heap_});
    std::atomic<bool> ends{false};
    std::atomic<int> looks{0};
    std::thread scraper([&] {
        while (!ends.load()) {
            looks += asked.metrics().empty() ? 0 : 1;
        }
    });
    constexpr int opens = 60;
    constexpr int least_looks = 20;
    for (int i = 0; i < opens || looks.load() < least_looks; ++i) {
        open_options options = small_segments();
        options.durability = i % 3 == 0 ? durability::commit : i % 3 == 1 ? durability::atomic : durability::collect;
        options.accept_process_crash_only = true;
        EXPECT_NO_THROW(manager(open_only, heap_, options).close());
    }
    ends = true;
    scraper.join();
}

TEST_F(cli_exporter, changes_nothing) {
    {
        manager(create_only, heap_, small_segments()).close();
        const manager reopened(open_only, heap_);  // makes the file `readers`
    }
    const auto before = files_under(heap_);
    const exporter asked({heap_});
    EXPECT_THAT(asked.metrics(), HasSubstr(line("holdfast_state", ",state=\"closed\"} 1")));
    EXPECT_EQ(files_under(heap_), before);
}

TEST_F(cli_exporter, goes_on_where_a_heap_comes_crashes_is_replaced_and_is_damaged) {
    const std::string other = scratch_ / "other.hf";
    manager(create_only, other, small_segments()).close();
    const exporter asked({heap_, other});
    const auto expect_state = [&](const std::string& state, int is_up) {
        EXPECT_THAT(asked.metrics(), AllOf(HasSubstr(line("holdfast_state", ",state=\"" + state + "\"} 1")),
                                           HasSubstr(fmt::format("\nholdfast_up{{heap=\"{}\"}} {}\n", heap_, is_up)),
                                           HasSubstr("\nholdfast_up{heap=\"" + other + "\"} 1\n")));
    };
    expect_state("not_found", 0);
    std::filesystem::create_directory(heap_);
    expect_state("not_a_heap", 0);
    std::filesystem::remove(heap_);
    manager(create_only, heap_, small_segments()).close();
    expect_state("closed", 1);
    base::child_process writer([&] {
        manager opened(open_only, heap_);
        static_cast<void>(opened.construct<int>("number")(1));
        opened.commit();
        for (;;) {
            ::pause();
        }
    });
    EXPECT_TRUE(writer.runs_until([&] { return asked.number("holdfast_commits_total") == 2; }));
    expect_state("open", 1);
    writer.kill();
    expect_state("crashed", 1);
    EXPECT_EQ(asked.number("holdfast_replacements_total"), 0);
    ASSERT_TRUE(manager::remove(heap_));
    expect_state("not_found", 0);
    manager(create_only, heap_, small_segments()).close();
    expect_state("closed", 1);
    EXPECT_EQ(asked.number("holdfast_replacements_total"), 1);
    for (const std::uint64_t of_copy : {100U, 4196U}) {
        flip_bit(heap_ + "/superblock", of_copy, 3);
    }
    expect_state("corrupt", 0);
    EXPECT_THAT(asked.metrics(), HasSubstr(line("holdfast_replacements_total", "} 1")));
}

TEST_F(cli_exporter, has_the_numbers_of_stores) {
    const std::string path = scratch_ / "words.store";
    heap_ = path;
    store words(path);
    const exporter asked({path});
    EXPECT_THAT(asked.metrics(),
                AllOf(HasSubstr(line("holdfast_up", "} 1")), HasSubstr(line("holdfast_state", ",state=\"store\"} 1")),
                      Not(HasSubstr("holdfast_commits_total"))));
    const double before = asked.number("holdfast_store_transactions_total");
    const auto reader = words.read();
    for (int i = 0; i < 10; ++i) {
        auto change = words.write();
        change.put("key" + std::to_string(i), std::string(10'000, 'v'));
        change.commit();
    }
    EXPECT_EQ(asked.number("holdfast_store_transactions_total"), before + 10);
    EXPECT_EQ(asked.number("holdfast_store_entries"), 10);
    EXPECT_EQ(asked.number("holdfast_store_databases"), 1);
    EXPECT_GE(asked.number("holdfast_store_used_bytes"), 100'000);
    EXPECT_GE(asked.number("holdfast_store_log_bytes"), 100'000);
    EXPECT_GE(asked.number("holdfast_store_log_room_bytes"), asked.number("holdfast_store_log_bytes"));
    EXPECT_THAT(asked.number("holdfast_store_unsynced_transactions"), AnyOf(0, 10)) << "10 on tmpfs";
    EXPECT_EQ(asked.number("holdfast_store_readers"), 1) << "the exporter is none";
    EXPECT_EQ(asked.number("holdfast_store_reader_lag_transactions"), 10);
    EXPECT_EQ(asked.number("holdfast_store_apparent_bytes"), static_cast<double>(std::filesystem::file_size(path)));
    EXPECT_GT(asked.number("holdfast_store_disk_available_bytes"), 0);
    const answer once = run_holdfast({"metrics", path});
    EXPECT_EQ(once.status, 0) << once.err;
    EXPECT_THAT(once.out, HasSubstr(line("holdfast_store_entries", "} 10")));
}

/// Their heap is not opened, so that no writer waits: the numbers are those of the last checkpoint.
TEST_F(cli_exporter, has_the_sizes_and_checkpoints_of_stores_in_heaps) {
    {
        manager writer(create_only, heap_, small_segments());
        heap_store shop(writer, "shop");
        auto change = shop.write();
        change.put("a", "1");
        change.put("b", "2");
        change.commit();
        writer.commit();
    }
    const manager writer(open_only, heap_);
    exporter asked({heap_});
    const std::string labels = "{heap=\"" + heap_ + "\",file=\"store.000000\"} ";
    EXPECT_THAT(asked.metrics(), HasSubstr("\nholdfast_store_file_checkpoint" + labels));
    EXPECT_GE(asked.number("holdfast_store_file_checkpoint"), 1);
    EXPECT_EQ(asked.number("holdfast_store_file_entries"), 2);
    EXPECT_EQ(asked.number("holdfast_store_file_transaction"), 1);
    EXPECT_GT(asked.number("holdfast_store_file_log_room_bytes"), 0);
    EXPECT_EQ(asked.number("holdfast_store_file_apparent_bytes"),
              static_cast<double>(std::filesystem::file_size(heap_ + "/store.000000")));
    EXPECT_GT(asked.number("holdfast_store_file_charged_bytes"), 0);
    const std::string all = asked.metrics();
    EXPECT_EQ(all.find("holdfast_up{", all.find("holdfast_up{") + 1), std::string::npos) << "it is the heap's alone";
    std::filesystem::resize_file(heap_ + "/store.000000", 100);
    EXPECT_THAT(asked.metrics(), AllOf(HasSubstr("holdfast_up"), Not(HasSubstr("holdfast_store_file"))));
    EXPECT_EQ(asked.end().exit_status(), 0);
}

TEST_F(cli_exporter, goes_on_where_a_store_is_damaged) {
    const std::string path = scratch_ / "words.store";
    heap_ = path;
    store(path).write().commit();
    const exporter asked({path});
    EXPECT_THAT(asked.metrics(), HasSubstr(line("holdfast_up", "} 1")));
    for (const std::uint64_t of_meta : {100U, 4196U}) {
        flip_bit(path, of_meta, 3);
    }
    EXPECT_THAT(asked.metrics(), AllOf(HasSubstr(line("holdfast_up", "} 0")),
                                       HasSubstr(line("holdfast_state", ",state=\"store_error\"} 1"))));
    EXPECT_EQ(run_holdfast({"metrics", path}).status, 2);
}

TEST_F(cli_exporter, answers_what_is_no_scrape_and_goes_on) {
    manager(create_only, heap_, small_segments()).close();
    exporter asked({heap_});
    const std::string close = " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n";
    EXPECT_THAT(asked.answer_to("GET /" + close + "\r\n"), AllOf(HasSubstr("200 OK"), HasSubstr("/metrics")));
    EXPECT_THAT(asked.answer_to("GET /metrics?name[]=x" + close + "\r\n"), HasSubstr("\nholdfast_up{"));
    EXPECT_THAT(asked.answer_to("GET /other" + close + "\r\n"), StartsWith("HTTP/1.1 404"));
    EXPECT_THAT(asked.answer_to("DELETE /metrics" + close + "\r\n"),
                AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD\r\n")));
    const std::string head = asked.answer_to("HEAD /metrics" + close + "\r\n");
    EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200"), ContainsRegex("Content-Length: [1-9]"), EndsWith("\r\n\r\n")));
    EXPECT_THAT(asked.answer_to("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("\nholdfast_up{"));
    for (const std::string& wrong : {std::string("no request\r\n\r\n"), "GET /" + std::string(20'000, 'x') + close,
                                     "POST /metrics" + close + "Content-Length: 5\r\n\r\n12345"}) {
        EXPECT_THAT(asked.answer_to(wrong), Not(HasSubstr("200 OK")));
    }
    const connection silent(asked.port());
    const connection slow(asked.port());
    slow.say("GET /metr");
    {
        const connection gone(asked.port());
        gone.say("GET /metrics" + close + "\r\n");
    }
    const connection two(asked.port());
    for (int i = 0; i < 2; ++i) {
        two.say("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
        EXPECT_THAT(two.hear("</a>\n"), HasSubstr("200 OK"));
    }
    slow.say("ics" + close + "\r\n");
    EXPECT_THAT(slow.hear(), HasSubstr("\nholdfast_up{"));
    EXPECT_EQ(asked.end().exit_status(), 0);
}

/// Was: who had kept 64 connections shut all others out, for 30 seconds at a time.
TEST_F(cli_exporter, answers_beside_connections_that_ask_nothing) {
    manager(create_only, heap_, small_segments()).close();
    const exporter asked({heap_});
    const std::string ask = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    const connection kept(asked.port());
    std::vector<std::unique_ptr<connection>> idle;
    constexpr int more_than_it_takes = 200;
    for (int i = 0; i < more_than_it_takes; ++i) {
        idle.push_back(std::make_unique<connection>(asked.port()));
        if (i % 10 == 0) {
            idle.back()->say(ask);  // its answer says that all before it were accepted
            EXPECT_THAT(idle.back()->hear("</a>\n"), HasSubstr("200 OK"));
            kept.say(ask);
            EXPECT_THAT(kept.hear("</a>\n"), HasSubstr("200 OK")) << i << ": what asks is no idle one";
        }
    }
    EXPECT_THAT(asked.metrics(), HasSubstr("\nholdfast_up{"));
    EXPECT_THAT(idle.front()->hear(), IsEmpty()) << "the one that has waited longest was closed";
    idle.back()->say(ask);
    EXPECT_THAT(idle.back()->hear("</a>\n"), HasSubstr("200 OK"));
}

/// Was: each series twice, for which Prometheus refuses all of them.
TEST_F(cli_exporter, counts_a_heap_once_that_is_named_twice) {
    manager(create_only, heap_, small_segments()).close();
    const std::string other = scratch_ / "other.hf";
    const exporter asked({heap_, other, heap_});
    for (const std::string& all : {asked.metrics(), run_holdfast({"metrics", heap_, other, heap_}).out}) {
        const std::string up = "\nholdfast_up{heap=\"" + heap_ + "\"} 1\n";
        const std::size_t first = all.find(up);
        ASSERT_NE(first, std::string::npos) << all;
        EXPECT_EQ(all.find(up, first + 1), std::string::npos) << all;
        EXPECT_THAT(all, HasSubstr("\nholdfast_up{heap=\"" + other + "\"} 0\n"));
    }
}

TEST_F(cli_exporter, says_where_it_cannot_listen) {
    const exporter first({heap_});
    const answer taken = run_holdfast({"exporter", "--listen", fmt::format("127.0.0.1:{}", first.port()), heap_});
    EXPECT_EQ(taken.status, 2);
    EXPECT_THAT(taken.err, AllOf(HasSubstr("cannot listen at 127.0.0.1:"), HasSubstr("in use")));
    for (const char* const wrong : {"9633", "localhost:9633", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                                    "127.0.0.1:65536", "127.0.0.1:-1", "::1", "[::1]"}) {
        const answer refused = run_holdfast({"exporter", "--listen", wrong, heap_});
        EXPECT_EQ(refused.status, 2) << wrong;
        EXPECT_THAT(refused.err, HasSubstr("an address and a port are wanted")) << wrong;
    }
    EXPECT_EQ(run_holdfast({"exporter"}).status, 2) << "no heap";
}

}  // namespace
}  // namespace holdfast::support
