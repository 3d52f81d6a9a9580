// The continued fraction method of factoring (Morrison and Brillhart 1975), on numbers of GMP, whose memory all comes
// from the allocator: many small blocks that live shortly.
//
// Of the expansion of sqrt(k n), each step gives A with A^2 = (-1)^i Q (mod n), where Q is below 2 sqrt(k n). Those Q
// that have only small primes are collected, until some product of them is a square in two ways.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmpxx.h>

#include "applications/application.hpp"
#include "applications/numbered_blocks.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

constexpr const char* usual_number = "1557623258394804960726976891";
constexpr std::size_t live_numbers = 16'384;
constexpr std::size_t bytes_of_number = 128;
constexpr unsigned spare_relations = 10;

/// GMP's memory functions for one thread.
class number_memory {
public:
    explicit number_memory(application_memory& memory) : blocks_(memory, live_numbers) {
        ::mp_set_memory_functions(allocate, reallocate, release);
        current = this;
    }
    number_memory(const number_memory&) = delete;
    number_memory& operator=(const number_memory&) = delete;
    ~number_memory() { current = nullptr; }
    [[nodiscard]] std::uint64_t calls() const noexcept { return blocks_.calls(); }
    [[nodiscard]] bool all_free() const noexcept { return blocks_.live() == 0; }

private:
    // Called by C: nothing may be thrown through it, and the process exists for this run alone.
    static void* allocate(std::size_t size) noexcept {
        try {
            return current->blocks_.allocate(size);
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "cfrac: %s\n", failure.what());
            std::abort();
        }
    }
    static void* reallocate(void* block, std::size_t old_size, std::size_t new_size) noexcept {
        void* const larger = allocate(new_size);
        std::memcpy(larger, block, std::min(old_size, new_size));
        release(block, old_size);
        return larger;
    }
    static void release(void* block, std::size_t /*size*/) noexcept { current->blocks_.release(block); }

    static thread_local number_memory* current;

    numbered_blocks blocks_;
};
thread_local number_memory* number_memory::current = nullptr;

using number = mpz_class;

/// A^2 is the product of the primes of the base to these powers, times -1 to the first of them, modulo n.
struct relation {
    number root;
    std::vector<std::uint8_t> powers;
};

/// The primes that can divide a Q: k n is a square modulo them. The first place stands for -1.
std::vector<unsigned long> prime_base(const number& multiple, std::size_t digits) {
    const std::size_t wanted = 20 + digits * digits / 4;
    std::vector<unsigned long> base{0, 2};
    for (unsigned long candidate = 3; base.size() < wanted; candidate += 2) {
        bool is_prime = true;
        for (unsigned long by = 3; is_prime && by * by <= candidate; by += 2) {
            is_prime = candidate % by != 0;
        }
        if (is_prime && ::mpz_kronecker_ui(multiple.get_mpz_t(), candidate) >= 0) {
            base.push_back(candidate);
        }
    }
    return base;
}

/// The powers of the base's primes in +-q; nothing where others divide it.
std::optional<std::vector<std::uint8_t>> powers_of(number q, bool negative, const std::vector<unsigned long>& base) {
    std::vector<std::uint8_t> powers(base.size());
    powers[0] = negative ? 1 : 0;
    for (std::size_t i = 1; i < base.size(); ++i) {
        while (::mpz_divisible_ui_p(q.get_mpz_t(), base[i]) != 0) {
            q /= base[i];
            ++powers[i];
        }
    }
    return q == 1 ? std::optional(std::move(powers)) : std::nullopt;
}

std::vector<relation> collect_relations(const number& n, const number& multiple,
                                        const std::vector<unsigned long>& base) {
    std::vector<relation> found;
    const number root = sqrt(multiple);
    number p = 0;
    number q = 1;
    number digit = root;
    number before = 1;
    number a = root % n;
    for (bool negative = true; found.size() < base.size() + spare_relations; negative = !negative) {
        p = number(digit * q - p);
        q = number((multiple - p * p) / q);
        if (q == 1) {
            return found;  // the expansion repeats from here
        }
        if (auto powers = powers_of(q, negative, base)) {
            found.push_back({a, std::move(*powers)});
        }
        digit = number((root + p) / q);
        number next = (digit * a + before) % n;
        before = std::exchange(a, std::move(next));
    }
    return found;
}

/// A factor from relations whose product is a square on both sides; nothing where it is 1 or n.
std::optional<number> factor_of(const number& n, const std::vector<const relation*>& product,
                                const std::vector<unsigned long>& base) {
    number left = 1;
    std::vector<unsigned long> powers(base.size());
    for (const relation* const one : product) {
        left = number(left * one->root % n);
        for (std::size_t i = 0; i < base.size(); ++i) {
            powers[i] += one->powers[i];
        }
    }
    number right = 1;
    for (std::size_t i = 1; i < base.size(); ++i) {
        for (unsigned long j = 0; j < powers[i] / 2; ++j) {
            right = number(right * base[i] % n);
        }
    }
    const number factor = gcd(number(left - right), n);
    return factor > 1 && factor < n ? std::optional(factor) : std::nullopt;
}

void add_row(std::vector<bool>& to, const std::vector<bool>& added) {
    std::transform(to.begin(), to.end(), added.begin(), to.begin(), std::not_equal_to<>());
}

/// Gauss's elimination modulo 2: a row is the powers of one relation, and which relations were added to it.
std::optional<number> combine(const number& n, const std::vector<relation>& relations,
                              const std::vector<unsigned long>& base) {
    struct row {
        std::vector<bool> odd;
        std::vector<bool> of;
    };
    std::vector<row> rows;
    std::vector<std::optional<std::size_t>> pivots(base.size());
    for (std::size_t number_of_row = 0; number_of_row < relations.size(); ++number_of_row) {
        row added{std::vector<bool>(base.size()), std::vector<bool>(relations.size())};
        for (std::size_t i = 0; i < base.size(); ++i) {
            added.odd[i] = relations[number_of_row].powers[i] % 2 != 0;
        }
        added.of[number_of_row] = true;
        std::size_t column = 0;
        for (; column < base.size(); ++column) {
            if (!added.odd[column]) {
                continue;
            }
            if (!pivots[column]) {
                break;
            }
            const row& pivot = rows[*pivots[column]];
            add_row(added.odd, pivot.odd);
            add_row(added.of, pivot.of);
        }
        if (column < base.size()) {
            pivots[column] = rows.size();
            rows.push_back(std::move(added));
            continue;
        }
        std::vector<const relation*> product;
        for (std::size_t i = 0; i < relations.size(); ++i) {
            if (added.of[i]) {
                product.push_back(&relations[i]);
            }
        }
        if (auto factor = factor_of(n, product, base)) {
            return factor;
        }
    }
    return std::nullopt;
}

/// Proves that it factored, and returns a checksum of the factors.
std::uint64_t factor_and_prove(const char* digits) {
    const number n(digits);
    for (const unsigned long multiplier : {1UL, 3UL, 5UL, 7UL, 11UL, 13UL}) {
        const number multiple = n * multiplier;
        const std::vector<unsigned long> base = prime_base(multiple, std::strlen(digits));
        if (const auto factor = combine(n, collect_relations(n, multiple, base), base)) {
            const number other = n / *factor;
            require_answer(*factor * other == n, "cfrac: the factors do not multiply to the number");
            return mix(factor->get_ui()) + mix(other.get_ui());
        }
    }
    throw std::logic_error("cfrac: no factor found: is the number composite?");
}

application_demand demand(const allocation_run& /*run*/) { return {live_numbers, live_numbers * bytes_of_number}; }

application_outcome work(application_memory& memory, const allocation_run& run, unsigned thread, std::uint64_t calls) {
    number_memory numbers(memory);
    const char* const digits = run.cfrac_number.empty() ? usual_number : run.cfrac_number.c_str();
    std::uint64_t checksum = thread;
    do {
        checksum += factor_and_prove(digits);
    } while (numbers.calls() < calls);
    require_answer(numbers.all_free(), "cfrac: a number is left");
    return {numbers.calls(), checksum};
}

}  // namespace

const application cfrac{"cfrac", demand, work};

}  // namespace bench
