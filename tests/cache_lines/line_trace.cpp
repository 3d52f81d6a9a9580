#include "cache_lines/line_trace.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include <dlfcn.h>
#include <fmt/format.h>
#include <time.h>
#include <ucontext.h>

namespace holdfast::cache_lines {

namespace {

constexpr std::uintptr_t page_size = 4096;
constexpr unsigned long trap_flag = 0x100;
constexpr std::uint64_t write_fault = 2;

struct access {
    std::uintptr_t address;
    std::uintptr_t code;
    std::uint32_t thread;
    bool is_write;
    bool is_locked;
};
constexpr std::size_t most_accesses = std::size_t{4} << 20U;

/// The handlers may use nothing else: all other memory is taken away. In pages of its own.
struct alignas(page_size) tracer_state {
    access* noted = nullptr;
    std::size_t count = 0;
    bool lost = false;
    std::array<std::uintptr_t, 8> given{};  ///< pages that the instruction has asked for
    std::size_t given_count = 0;
    std::uint32_t turn = 0;  ///< thread + 1; 0: the tracer's
};
tracer_state state;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// The C library's functions store to memory that is taken away.
long system_call(long number, long first, long second, long third) noexcept {
    long result = 0;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}
long protect(std::uintptr_t page, std::size_t bytes, int how) noexcept {
    return system_call(SYS_mprotect, static_cast<long>(page), static_cast<long>(bytes), how);
}

bool is_locked(const unsigned char* code) noexcept {
    while (*code == 0x66 || *code == 0xf2 || *code == 0xf3 || *code == 0x2e || *code == 0x64) {
        ++code;
    }
    if (*code == 0xf0) {
        return true;
    }
    code += (*code & 0xf0U) == 0x40 ? 1 : 0;
    return *code == 0x86 || *code == 0x87;  // xchg
}

void on_fault(int signal, siginfo_t* what, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto address = reinterpret_cast<std::uintptr_t>(what->si_addr);
    const std::uintptr_t page = address / page_size * page_size;
    if (state.turn == 0 || state.given_count == state.given.size() ||
        protect(page, page_size, PROT_READ | PROT_WRITE) != 0) {
        struct sigaction plain {};  // a fault of the program itself
        plain.sa_handler = SIG_DFL;
        static_cast<void>(::sigaction(signal, &plain, nullptr));
        return;
    }
    state.given[state.given_count++] = page;
    if (state.count == most_accesses) {
        state.lost = true;
    } else {
        const auto code = static_cast<std::uintptr_t>(registers[REG_RIP]);
        access& now = state.noted[state.count++];
        now.address = address;
        now.code = code;
        now.thread = state.turn - 1;
        now.is_write = (static_cast<std::uint64_t>(registers[REG_ERR]) & write_fault) != 0;
        now.is_locked = is_locked(reinterpret_cast<const unsigned char*>(code));
    }
    registers[REG_EFL] |= static_cast<long long>(trap_flag);
}

void on_step(int /*signal*/, siginfo_t* /*what*/, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    for (std::size_t i = 0; i < state.given_count; ++i) {
        protect(state.given[i], page_size, PROT_NONE);
    }
    state.given_count = 0;
    registers[REG_EFL] &= ~static_cast<long long>(trap_flag);
}

struct range {
    std::uintptr_t begin;
    std::uintptr_t end;
};

range stack_of(pthread_t thread) {
    pthread_attr_t attributes;
    if (::pthread_getattr_np(thread, &attributes) != 0) {
        throw std::runtime_error("pthread_getattr_np");
    }
    void* begin = nullptr;
    std::size_t bytes = 0;
    static_cast<void>(::pthread_attr_getstack(&attributes, &begin, &bytes));
    static_cast<void>(::pthread_attr_destroy(&attributes));
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    return {at, at + bytes};
}

/// What is writable, without `kept`.
std::vector<range> writable_memory(std::vector<range> kept) {
    std::ranges::sort(kept, {}, &range::begin);
    std::vector<range> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        range all{};
        std::array<char, 5> rights{};
        if (std::sscanf(line.c_str(), "%lx-%lx %4s", &all.begin, &all.end, rights.data()) != 3 || rights[0] != 'r' ||
            rights[1] != 'w' || rights[2] == 'x' || line.find("[stack]") != std::string::npos) {
            continue;
        }
        for (const range& each : kept) {
            if (each.end <= all.begin || each.begin >= all.end) {
                continue;
            }
            if (each.begin > all.begin) {
                found.push_back({all.begin, each.begin});
            }
            all.begin = std::min(each.end, all.end);
        }
        if (all.begin < all.end) {
            found.push_back(all);
        }
    }
    return found;
}

range pages_around(const void* first, std::size_t before, std::size_t behind) {
    const auto at = reinterpret_cast<std::uintptr_t>(first);
    return {(at - before) / page_size * page_size, (at + behind + page_size - 1) / page_size * page_size};
}

class handlers {
public:
    handlers() {
        struct sigaction action {};
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        action.sa_sigaction = on_fault;
        ::sigaction(SIGSEGV, &action, &segv_);
        action.sa_sigaction = on_step;
        ::sigaction(SIGTRAP, &action, &trap_);
    }
    handlers(const handlers&) = delete;
    handlers& operator=(const handlers&) = delete;
    ~handlers() {
        ::sigaction(SIGSEGV, &segv_, nullptr);
        ::sigaction(SIGTRAP, &trap_, nullptr);
    }

private:
    struct sigaction segv_ {};
    struct sigaction trap_ {};
};

/// Holds no reference to memory of others while it waits.
void wait_for_turn(std::uint32_t of) noexcept {
    while (__atomic_load_n(&state.turn, __ATOMIC_ACQUIRE) != of) {
        system_call(SYS_sched_yield, 0, 0, 0);
    }
}
void give_turn(std::uint32_t to) noexcept { __atomic_store_n(&state.turn, to, __ATOMIC_RELEASE); }

/// Warm calls, then traced ones: each part by turns. The tracer's part between them takes memory away.
void run_thread(const trace_plan& plan, const make_calls& make, unsigned thread) {
    const std::uint32_t mine = thread + 1;
    const std::uint32_t next = mine == plan.threads ? 0 : mine + 1;
    wait_for_turn(mine);
    const std::function<void()> call = make(thread);
    const trace_plan copy = plan;
    for (const unsigned calls : {copy.warm_calls, copy.calls}) {
        for (unsigned done = 0; done < calls; done += copy.at_a_time) {
            wait_for_turn(mine);
            for (unsigned i = 0; i < copy.at_a_time; ++i) {
                call();
            }
            give_turn(next);
        }
    }
    wait_for_turn(mine);  // what it holds is freed with all memory there
    give_turn(next);
}

void let_all_have_turns(unsigned rounds) noexcept {
    for (unsigned i = 0; i < rounds; ++i) {
        give_turn(1);
        wait_for_turn(0);
    }
}

struct line_history {
    shared_line seen;
    std::uint64_t version = 0;  ///< writes by all
    std::vector<std::uint64_t> known;
    std::uint32_t last_writer = 0;
    std::uint32_t touched = 0;  ///< a bit for each thread
};

traced_calls summary(const trace_plan& plan) {
    traced_calls all;
    all.calls = std::uint64_t{plan.calls} * plan.threads;
    all.accesses = state.count;
    all.all_noted = !state.lost;
    std::map<std::uintptr_t, line_history> lines;
    for (std::size_t i = 0; i < state.count; ++i) {
        const access& each = state.noted[i];
        line_history& line = lines[each.address / plan.line * plan.line];
        all.writes += each.is_write ? 1 : 0;
        all.locked += each.is_locked ? 1 : 0;
        line.known.resize(plan.threads);
        if (line.version != line.known[each.thread] && line.last_writer != each.thread) {
            ++line.seen.foreign;
        }
        if (each.is_write) {
            ++line.version;
            ++line.seen.writes;
            line.last_writer = each.thread;
            line.seen.written_by = each.code;
        } else {
            ++line.seen.reads;
        }
        line.known[each.thread] = line.version;
        line.touched |= 1U << each.thread;
    }
    for (auto& [at, line] : lines) {
        if (line.seen.foreign != 0) {
            line.seen.line = at;
            all.transfers += line.seen.foreign;
            all.shared.push_back(line.seen);
        }
    }
    std::ranges::sort(all.shared, std::greater(), &shared_line::foreign);
    return all;
}

std::string name_of(std::uintptr_t code) {
    Dl_info found{};
    if (::dladdr(reinterpret_cast<const void*>(code), &found) == 0 || found.dli_fname == nullptr) {
        return fmt::format("{:#x}", code);
    }
    const std::string file = found.dli_fname;
    return fmt::format("{}+{:#x}{}{}", file.substr(file.rfind('/') + 1),
                       code - reinterpret_cast<std::uintptr_t>(found.dli_fbase),
                       found.dli_sname == nullptr ? "" : " in ", found.dli_sname == nullptr ? "" : found.dli_sname);
}

}  // namespace

std::string traced_calls::describe() const {
    const auto each_call = [this](std::uint64_t of) { return static_cast<double>(of) / static_cast<double>(calls); };
    std::string text = fmt::format("a call: {:.2f} accesses, {:.2f} writes, {:.2f} locked, {:.3f} lines from others\n",
                                   each_call(accesses), each_call(writes), each_call(locked), transfers_a_call());
    constexpr std::size_t worst = 12;
    for (std::size_t i = 0; i < std::min(worst, shared.size()); ++i) {
        const shared_line& each = shared[i];
        text += fmt::format("  line {:#x}: {} from others, {} writes, {} reads, written by {}\n", each.line,
                            each.foreign, each.writes, each.reads, name_of(each.written_by));
    }
    return text;
}

traced_calls trace(const trace_plan& plan, const make_calls& make) {
    void* const log = ::mmap(nullptr, most_accesses * sizeof(access), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (log == MAP_FAILED) {
        throw std::runtime_error("mmap");
    }
    state.noted = static_cast<access*>(log);
    state.count = 0;
    state.lost = false;
    state.turn = 0;
    std::vector<std::thread> threads;
    const auto log_at = reinterpret_cast<std::uintptr_t>(log);
    std::vector<range> kept{{log_at, log_at + most_accesses * sizeof(access)},
                            pages_around(&state, 0, sizeof state),
                            pages_around(__builtin_thread_pointer(), std::size_t{4} * page_size, page_size)};
    for (unsigned i = 0; i < plan.threads; ++i) {
        threads.emplace_back(run_thread, std::cref(plan), std::cref(make), i);
        kept.push_back(stack_of(threads.back().native_handle()));
    }
    const unsigned traced = (plan.calls + plan.at_a_time - 1) / plan.at_a_time;
    let_all_have_turns((plan.warm_calls + plan.at_a_time - 1) / plan.at_a_time);
    {
        const handlers installed;
        const std::vector<range> memory = writable_memory(kept);
        const std::size_t count = memory.size();
        std::array<range, 2048> pages{};  // on the stack
        if (count > pages.size()) {
            throw std::runtime_error("too many mappings");
        }
        std::ranges::copy(memory, pages.begin());
        for (std::size_t i = 0; i < count; ++i) {
            protect(pages[i].begin, pages[i].end - pages[i].begin, PROT_NONE);
        }
        let_all_have_turns(traced);
        for (std::size_t i = 0; i < count; ++i) {
            protect(pages[i].begin, pages[i].end - pages[i].begin, PROT_READ | PROT_WRITE);
        }
    }
    let_all_have_turns(1);
    for (std::thread& each : threads) {
        each.join();
    }
    traced_calls found = summary(plan);
    ::munmap(log, most_accesses * sizeof(access));
    return found;
}

}  // namespace holdfast::cache_lines

// What takes its time from the clock, or its place from the core, would be found in the tracing, not in the program.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
int clock_gettime(clockid_t clock, timespec* time) noexcept {
    using holdfast::cache_lines::state;
    static thread_local timespec frozen{};
    if (state.turn != 0 && frozen.tv_sec != 0) {
        *time = frozen;
        return 0;
    }
    const auto result =
        static_cast<int>(holdfast::cache_lines::system_call(SYS_clock_gettime, clock, reinterpret_cast<long>(time), 0));
    if (state.turn != 0) {
        frozen = *time;
    }
    return result;
}
int sched_getcpu() noexcept {
    return holdfast::cache_lines::state.turn == 0 ? 0 : static_cast<int>(holdfast::cache_lines::state.turn) - 1;
}
int get_nprocs() noexcept { return 16; }
}
