// A program that calls every function of malloc's family and every operator new, in many threads and across forks, and
// prints "sound". It knows nothing of Holdfast. Any number as an argument: so many threads; "wild": frees what is no
// block, too.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>

namespace {

void require(bool holds, const char* what, int line) {
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, what);
        std::_Exit(1);
    }
}
#define REQUIRE(condition) require(condition, #condition, __LINE__)

bool is_aligned(const void* block, std::size_t to) { return reinterpret_cast<std::uintptr_t>(block) % to == 0; }

/// Allocated before main, and in the constructors of others.
const std::string before_main(1000, 'b');

void check_block(void* block, std::size_t bytes, std::size_t alignment) {
    REQUIRE(block != nullptr);
    REQUIRE(is_aligned(block, alignment));
    REQUIRE(::malloc_usable_size(block) >= bytes);
    std::memset(block, 0x5a, ::malloc_usable_size(block));
}

void call_functions_of_c() {
    for (const std::size_t bytes : {0UL, 1UL, 7UL, 16UL, 100UL, 5000UL, 70'000UL, 3'000'000UL}) {
        void* block = std::malloc(bytes);  // lint-allow(hand-memory): tested
        check_block(block, bytes, 16);
        // NOLINTNEXTLINE(bugprone-suspicious-realloc-usage): check_block() stops where it is null
        block = std::realloc(block, 2 * bytes + 1);  // lint-allow(hand-memory): tested
        check_block(block, 2 * bytes + 1, 16);
        block = ::reallocarray(block, 3, bytes + 1);
        check_block(block, 3 * bytes + 3, 16);
        std::free(block);                                                // lint-allow(hand-memory): tested
        auto* const zeroed = static_cast<char*>(std::calloc(bytes, 2));  // lint-allow(hand-memory): tested
        for (std::size_t i = 0; i < 2 * bytes; ++i) {
            REQUIRE(zeroed[i] == 0);
        }
        check_block(zeroed, 2 * bytes, 16);
        std::free(zeroed);  // lint-allow(hand-memory): tested
        for (std::size_t alignment = 16; alignment <= 65'536; alignment *= 4) {
            void* aligned = ::memalign(alignment, bytes);
            check_block(aligned, bytes, alignment);
            std::free(aligned);  // lint-allow(hand-memory): tested
            aligned = std::aligned_alloc(alignment, bytes);
            check_block(aligned, bytes, alignment);
            std::free(aligned);  // lint-allow(hand-memory): tested
            REQUIRE(::posix_memalign(&aligned, alignment, bytes) == 0);
            check_block(aligned, bytes, alignment);
            std::free(aligned);  // lint-allow(hand-memory): tested
        }
        void* page = ::valloc(bytes);
        check_block(page, bytes, 4096);
        std::free(page);  // lint-allow(hand-memory): tested
        page = ::pvalloc(bytes);
        check_block(page, (bytes + 4095) / 4096 * 4096, 4096);
        std::free(page);  // lint-allow(hand-memory): tested
    }
    void* nothing = nullptr;
    const volatile std::size_t huge = SIZE_MAX / 2;
    REQUIRE(::posix_memalign(&nothing, 24, 8) == EINVAL);
    errno = 0;
    REQUIRE(std::malloc(2 * huge - 100) == nullptr && errno == ENOMEM);  // lint-allow(hand-memory): tested
    errno = 0;
    REQUIRE(std::calloc(huge, 4) == nullptr && errno == ENOMEM);  // lint-allow(hand-memory): tested
    errno = 0;
    REQUIRE(::reallocarray(nullptr, huge, 4) == nullptr && errno == ENOMEM);
    errno = 0;
    REQUIRE(::memalign(2 * huge - 100, 8) == nullptr && errno == EINVAL);
    errno = 77;
    std::free(nullptr);  // lint-allow(hand-memory): tested
    REQUIRE(errno == 77 && ::malloc_usable_size(nullptr) == 0);
}

void call_operators() {
    constexpr std::align_val_t wide{256};
    for (const std::size_t bytes : {0UL, 1UL, 100UL, 70'000UL}) {
        void* block = ::operator new(bytes);
        check_block(block, bytes, 16);
        ::operator delete(block);
        block = ::operator new[](bytes);
        ::operator delete[](block, bytes);
        block = ::operator new(bytes, std::nothrow);
        ::operator delete(block, std::nothrow);
        block = ::operator new(bytes, wide);
        check_block(block, bytes, 256);
        ::operator delete(block, bytes, wide);
        block = ::operator new[](bytes, wide, std::nothrow);
        check_block(block, bytes, 256);
        ::operator delete[](block, wide);
    }
    volatile std::size_t huge = SIZE_MAX / 2;
    REQUIRE(::operator new(huge, std::nothrow) == nullptr);
    bool thrown = false;
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc&) {
        thrown = true;
    }
    REQUIRE(thrown);
}

struct last_words {
    std::string* words = nullptr;
    last_words() = default;
    last_words(const last_words&) = delete;
    last_words& operator=(const last_words&) = delete;
    ~last_words() { delete words; }  // lint-allow(hand-memory): tested
};
thread_local last_words of_thread;

void work(unsigned seed, int rounds) {
    of_thread.words = new std::string(200, 'w');  // lint-allow(hand-memory): tested
    std::vector<std::string> all;
    std::uint64_t state = seed;
    for (int i = 0; i < rounds; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const auto length = static_cast<std::size_t>(state >> 33U) % (i % 50 == 0 ? 100'000 : 300);
        all.emplace_back(length, static_cast<char>('a' + length % 26));
        if (all.size() > 100) {
            const std::size_t at = length % all.size();
            const std::string& one = all[at];
            REQUIRE(one.find_first_not_of(static_cast<char>('a' + one.size() % 26)) == std::string::npos);
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
}

void fork_while_others_work(unsigned threads) {
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; ++t) {
        running.emplace_back(work, t, 20'000);
    }
    std::string mine(5000, 'm');
    for (int i = 0; i < 10; ++i) {
        const pid_t child = ::fork();  // lint-allow(fork): a program without GoogleTest
        REQUIRE(child >= 0);
        if (child == 0) {
            const bool same = mine == std::string(5000, 'm') && before_main == std::string(1000, 'b');
            mine.assign(9000, 'c');
            work(99, 500);
            std::thread(work, 98, 500).join();
            std::_Exit(same ? 0 : 1);
        }
        int status = 1;
        REQUIRE(::waitpid(child, &status, 0) == child && status == 0);
        REQUIRE(mine == std::string(5000, 'm'));
    }
    for (std::thread& one : running) {
        one.join();
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string argument = argc > 1 ? argv[1] : "4";
    if (argument == "wild") {
        alignas(16) static char here[64];
        void* volatile wild = here;
        std::free(wild);                         // lint-allow(hand-memory): tested
        void* volatile twice = std::malloc(50);  // lint-allow(hand-memory): tested
        std::free(twice);                        // lint-allow(hand-memory): tested
        std::free(twice);                        // lint-allow(hand-memory): tested
    }
    call_functions_of_c();
    call_operators();
    fork_while_others_work(argument == "wild" ? 2 : static_cast<unsigned>(std::stoul(argument)));
    std::puts("sound");
    return 0;
}
