// Calls of malloc while other threads hold locks of the C library and of the loader, fork, begin and end. Run with
// libholdfast-malloc.so; prints "sound". Where a call waits for such a lock inside the allocator, it hangs, and the
// alarm ends it.
//
//   malloc_locks loader | segments | streams | signals | threads | mixed
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>

namespace {

std::atomic<unsigned> wrong{0};

void expect(bool holds) { wrong += holds ? 0 : 1; }

bool succeeds(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void allocate_some(std::size_t rounds) {
    std::array<void*, 64> blocks{};
    for (std::size_t i = 0; i < rounds; ++i) {
        void*& one = blocks[i % blocks.size()];
        std::free(one);
        one = std::malloc(i % 50 == 0 ? 70'000 : 16 + i * 37 % 2000);
        expect(one != nullptr);
    }
    for (void* const one : blocks) {
        std::free(one);
    }
}

/// Also what makes the heap grow, what moves, and what fails.
void allocate_all_kinds() {
    allocate_some(300);
    constexpr std::size_t large = 40'000'000;
    auto* block = static_cast<char*>(std::malloc(large));
    expect(block != nullptr);
    std::memset(block, 1, large / 2);
    block = static_cast<char*>(std::realloc(block, 2 * large));
    expect(block != nullptr && block[large / 2 - 1] == 1);
    std::free(block);
    volatile std::size_t too_much = SIZE_MAX / 4;
    expect(std::malloc(too_much) == nullptr);
    expect(std::calloc(too_much, 1) == nullptr);
    block = static_cast<char*>(std::aligned_alloc(4096, 8192));
    expect(block != nullptr);
    std::free(block);
}

void fork_once() {
    const pid_t child = ::fork();  // lint-allow(fork): on the C library alone
    if (child == 0) {
        allocate_some(100);
        ::_exit(wrong == 0 ? 0 : 1);
    }
    expect(child > 0 && succeeds(child));
}

/// Begins without a call of malloc, and waits for its work. Its memory is the creator's.
class waiting_thread {
public:
    explicit waiting_thread(std::function<void()> work) : work_(std::move(work)) {
        ::sem_init(&go_, 0, 0);
        expect(::pthread_create(&thread_, nullptr, run, this) == 0);
    }
    waiting_thread(const waiting_thread&) = delete;
    waiting_thread& operator=(const waiting_thread&) = delete;
    ~waiting_thread() { ::sem_destroy(&go_); }

    void go() { ::sem_post(&go_); }
    void join() { ::pthread_join(thread_, nullptr); }
    void go_and_join() {
        go();
        join();
    }

private:
    static void* run(void* self) {
        auto& mine = *static_cast<waiting_thread*>(self);
        while (::sem_wait(&mine.go_) != 0) {
        }
        mine.work_();
        return nullptr;
    }

    std::function<void()> work_;
    sem_t go_{};
    pthread_t thread_{};
};

std::function<void()> under_lock;

/// While `hold` runs under_lock(), all of these come to their end.
void work_beside(const std::function<void()>& hold, bool forks) {
    constexpr int rounds = 3;
    for (int round = 0; round < rounds; ++round) {
        waiting_thread small([] { std::free(std::malloc(100)); });
        waiting_thread all([] { allocate_all_kinds(); });
        waiting_thread forking(fork_once);
        bool ran = false;
        under_lock = [&] {
            ran = true;
            small.go_and_join();
            all.go_and_join();
            if (forks) {
                forking.go_and_join();
            }
            allocate_some(200);
        };
        hold();
        expect(ran);
        if (!forks) {
            forking.go_and_join();
        }
    }
}

void hold_loader() {
    void* const module = ::dlopen(HOLDFAST_CONSTRUCTED_MODULE, RTLD_NOW | RTLD_LOCAL);
    expect(module != nullptr);
    ::dlclose(module);
}

void hold_segments() {
    ::dl_iterate_phdr(
        [](dl_phdr_info* /*of*/, std::size_t /*bytes*/, void* /*none*/) {
            under_lock();
            return 1;
        },
        nullptr);
}

/// Flushing all streams holds the lock of their list while this one writes.
class held_streams {
public:
    held_streams() {
        cookie_io_functions_t functions{};
        functions.write = [](void* /*none*/, const char* /*text*/, std::size_t bytes) {
            under_lock();
            return static_cast<ssize_t>(bytes);
        };
        stream_ = ::fopencookie(nullptr, "w", functions);
    }
    held_streams(const held_streams&) = delete;
    held_streams& operator=(const held_streams&) = delete;
    ~held_streams() { std::fclose(stream_); }

    void flush_all() {
        std::fputc('x', stream_);
        std::fflush(nullptr);
    }

private:
    FILE* stream_;
};

std::atomic<pid_t> preparing{0};

/// The thread sleeps, by the letter behind its name.
bool sleeps(pid_t thread) {
    std::array<char, 256> text{};
    std::snprintf(text.data(), text.size(), "/proc/self/task/%d/stat", static_cast<int>(thread));
    const int file = ::open(text.data(), O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = ::read(file, text.data(), text.size() - 1);
    ::close(file);
    const std::string_view line(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    const auto name_end = line.rfind(") ");
    return name_end != std::string_view::npos && line.substr(name_end + 2, 1) == "S";
}

/// fork() itself waits for the list of streams, and nobody may wait for the fork meanwhile.
void fork_while_streams_are_held() {
    ::pthread_atfork([] { preparing = static_cast<pid_t>(::syscall(SYS_gettid)); }, nullptr, nullptr);
    held_streams streams;
    constexpr int rounds = 3;
    for (int round = 0; round < rounds; ++round) {
        waiting_thread forking(fork_once);
        waiting_thread first([] { allocate_all_kinds(); });
        under_lock = [&] {
            preparing = 0;
            forking.go();
            while (preparing == 0 || !sleeps(preparing)) {
                std::this_thread::yield();
            }
            first.go_and_join();
            allocate_all_kinds();
        };
        streams.flush_all();
        forking.join();
    }
}

std::atomic<unsigned> handled{0};
timer_t next_signal{};

/// The next signal comes while the thread does what it does, some 20 to 500 microseconds after the last was handled: a
/// sender that never pauses leaves the thread no step between two handlers.
void await_signal() {
    constexpr long least = 20'000;
    constexpr long step = 7'919;
    constexpr long span = 480'000;
    itimerspec when{};
    when.it_value.tv_nsec = least + handled * step % span;
    expect(::timer_settime(next_signal, 0, &when, nullptr) == 0);
}

/// One thread: POSIX had fork() among the functions that handlers may call until 2024.
void fork_in_handlers() {
    struct sigaction action {};
    action.sa_handler = [](int) {
        const int before = errno;
        const pid_t child = ::fork();  // lint-allow(fork): on the C library alone
        if (child == 0) {
            ::_exit(0);
        }
        expect(child > 0 && succeeds(child));
        ++handled;
        await_signal();
        errno = before;
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGUSR1, &action, nullptr);
    sigevent signal{};
    signal.sigev_notify = SIGEV_SIGNAL;
    signal.sigev_signo = SIGUSR1;
    expect(::timer_create(CLOCK_MONOTONIC, &signal, &next_signal) == 0);
    await_signal();
    constexpr unsigned enough = 200;
    sigset_t mine;
    ::sigemptyset(&mine);
    ::sigaddset(&mine, SIGUSR1);
    while (handled < enough) {
        // A handler that forks within fork() may wait for the C library's own list of handlers.
        ::pthread_sigmask(SIG_BLOCK, &mine, nullptr);
        fork_once();
        ::pthread_sigmask(SIG_UNBLOCK, &mine, nullptr);
        allocate_some(100);
    }
    ::timer_delete(next_signal);
}

void fork_beside_many_threads() {
    constexpr std::size_t count = 1000;
    pthread_attr_t small{};
    ::pthread_attr_init(&small);
    ::pthread_attr_setstacksize(&small, std::size_t{64} * 1024);
    static std::atomic<bool> end{false};
    static std::atomic<std::size_t> known{0};
    static sem_t ends;
    ::sem_init(&ends, 0, 0);
    std::vector<pthread_t> threads(count);
    const auto work = [](void*) -> void* {
        allocate_some(20);
        ++known;
        while (::sem_wait(&ends) != 0) {
        }
        allocate_some(20);
        return nullptr;
    };
    for (pthread_t& thread : threads) {
        expect(::pthread_create(&thread, &small, work, nullptr) == 0);
    }
    ::pthread_attr_destroy(&small);
    while (known != count) {
        std::this_thread::yield();
    }
    for (std::size_t i = 0; i < count; ++i) {
        ::sem_post(&ends);
        if (i % 100 == 0) {
            fork_once();
        }
    }
    for (const pthread_t thread : threads) {
        ::pthread_join(thread, nullptr);
    }
}

/// As programs do it: nothing is held on purpose.
void mix() {
    under_lock = [] { allocate_some(50); };
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    threads.emplace_back([&stop] {
        while (!stop) {
            fork_once();
        }
    });
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&stop] {
            while (!stop) {
                std::thread([] { std::free(std::malloc(100)); }).join();
            }
        });
    }
    constexpr int opened = 1000;
    for (int i = 0; i < opened; ++i) {
        hold_loader();
        std::fflush(nullptr);
    }
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
}

}  // namespace

/// The constructor of the module calls this, under the loader's lock.
extern "C" [[gnu::visibility("default")]] void call_under_lock() { under_lock(); }

int main(int count, char** arguments) {
    ::alarm(60);
    const std::string_view what = count == 2 ? arguments[1] : "";
    if (what == "loader") {
        work_beside(hold_loader, true);
    } else if (what == "segments") {
        work_beside(hold_segments, true);
    } else if (what == "streams") {
        held_streams streams;
        work_beside([&streams] { streams.flush_all(); }, false);
        fork_while_streams_are_held();
    } else if (what == "signals") {
        fork_in_handlers();
    } else if (what == "threads") {
        fork_beside_many_threads();
    } else if (what == "mixed") {
        mix();
    } else {
        return 2;
    }
    if (wrong != 0) {
        std::printf("%u calls went wrong\n", wrong.load());
        return 1;
    }
    std::puts("sound");
    return 0;
}
