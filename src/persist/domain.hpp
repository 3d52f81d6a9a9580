// Persistence domains: how far a store to mapped memory must travel before a crash can no longer take it back.
//
// Code that persists by stores (records, bitmaps, destinations) is written against the concept `persistence_domain`, so
// that the crash simulator stands in for the hardware without a virtual call. Files are another matter: storage.hpp.
//
// What every domain promises:
//   - store(): the 8 bytes reach media whole or not at all, at any time from now on. fetch_or(), fetch_and() and
//     replace_if() are stores that read first, atomic among threads.
//   - copy(), fill_zero(), copy_nontemporal(), copy_line() (64 aligned bytes): any subset of the 8-byte words may be on
//   media, until a fence.
//   - after flush() and then fence() **in the same thread**, the range and every completed copy_nontemporal() are
//     durable. A fence in one thread says nothing about the flushes of another.
// Thread safety: all members may be called from all threads.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/flush.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

/// The kinds of persistence domain, as `holdfast info` prints them.
enum class domain_kind : std::uint8_t {
    dax,         ///< byte-addressable media: durable after flush and fence
    eadr,        ///< the same, and the processor's caches survive a power loss: durable after a fence
    page_cache,  ///< every other file: survives a process crash at once, a power loss only by commit()
    emulated,    ///< as dax in every instruction, without the media: for tests and benchmarks
};

[[nodiscard]] std::string_view to_string(domain_kind kind) noexcept;

/// A line, as words.
using line_words = std::uint64_t[8];

/// What code that persists by stores may ask of a domain. `site` names the place in our code (see storage.hpp).
template <class Domain>
concept persistence_domain = requires(Domain& domain, std::uint64_t& word, std::uint64_t value, void* target,
                                      const void* source, std::size_t bytes, const line_words& line, site where) {
    { Domain::kind } -> std::convertible_to<domain_kind>;
    { domain.store(word, value, where) } noexcept;
    { domain.fetch_or(word, value, where) } noexcept -> std::same_as<std::uint64_t>;
    { domain.fetch_and(word, value, where) } noexcept -> std::same_as<std::uint64_t>;
    { domain.replace_if(word, value, value, where) } noexcept -> std::same_as<bool>;
    { domain.copy_nontemporal(target, source, bytes, where) } noexcept;
    { domain.copy_line(target, line, where) } noexcept;
    { domain.copy(target, source, bytes, where) } noexcept;
    { domain.fill_zero(target, bytes, where) } noexcept;
    { domain.flush(source, bytes, where) } noexcept;
    { domain.fence(where) } noexcept;
};

/// The 8-byte store of all real domains: a release store, so that other threads see what was written before it.
inline void store_word(std::uint64_t& word, std::uint64_t value) noexcept {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

/// The stores that all real domains share.
class storing_domain {
public:
    static void store(std::uint64_t& word, std::uint64_t value, site /*where*/) noexcept { store_word(word, value); }
    /// Ordinary stores: memcpy, memset.
    static void copy(void* target, const void* source, std::size_t bytes, site /*where*/) noexcept {
        std::memcpy(target, source, bytes);
    }
    static void fill_zero(void* target, std::size_t bytes, site /*where*/) noexcept { std::memset(target, 0, bytes); }
    static void copy_words(void* target, const line_words& line, site /*where*/) noexcept {
        auto* const to = static_cast<volatile std::uint64_t*>(target);  // in this order, and no wider
        for (std::size_t i = 0; i < std::size(line); ++i) {
            to[i] = line[i];
        }
    }
    /// Sets bits; returns the word as it was.
    static std::uint64_t fetch_or(std::uint64_t& word, std::uint64_t bits, site /*where*/) noexcept {
        return std::atomic_ref<std::uint64_t>(word).fetch_or(bits, std::memory_order_acq_rel);
    }
    /// Keeps only these bits; returns the word as it was.
    static std::uint64_t fetch_and(std::uint64_t& word, std::uint64_t bits, site /*where*/) noexcept {
        return std::atomic_ref<std::uint64_t>(word).fetch_and(bits, std::memory_order_acq_rel);
    }
    /// Stores `value` where the word is `expected`; whether it was.
    static bool replace_if(std::uint64_t& word, std::uint64_t expected, std::uint64_t value, site /*where*/) noexcept {
        return std::atomic_ref<std::uint64_t>(word).compare_exchange_strong(expected, value, std::memory_order_acq_rel);
    }
};

/// Media behind the memory bus: every flush and fence is executed. `emulated` does the same on any memory.
template <domain_kind Kind>
    requires(Kind == domain_kind::dax || Kind == domain_kind::emulated)
class flushing_domain : public storing_domain {
public:
    static constexpr domain_kind kind = Kind;

    flushing_domain() noexcept : flush_(flush_with(best_flush_method())) {}

    static void copy_nontemporal(void* target, const void* source, std::size_t bytes, site /*where*/) noexcept {
        copy_around_cache(target, source, bytes);
    }
    static void copy_line(void* target, const line_words& line, site /*where*/) noexcept {
        copy_line_around_cache(target, line);
    }
    void flush(const void* begin, std::size_t bytes, site /*where*/) const noexcept { flush_(begin, bytes); }
    static void fence(site /*where*/) noexcept { drain(); }

private:
    flush_function flush_;
};

using dax_domain = flushing_domain<domain_kind::dax>;
using emulated_domain = flushing_domain<domain_kind::emulated>;

/// Media whose caches are in the domain: a store is durable once it has left the store buffer.
class eadr_domain : public storing_domain {
public:
    static constexpr domain_kind kind = domain_kind::eadr;

    static void copy_nontemporal(void* target, const void* source, std::size_t bytes, site /*where*/) noexcept {
        std::memcpy(target, source, bytes);
    }
    static void copy_line(void* target, const line_words& line, site where) noexcept {
        copy_words(target, line, where);
    }
    static void flush(const void* /*begin*/, std::size_t /*bytes*/, site /*where*/) noexcept {}
    static void fence(site /*where*/) noexcept { drain(); }
};

/// Ordinary files: what a process has stored survives the process, and nothing here makes it survive more.
class page_cache_domain : public storing_domain {
public:
    static constexpr domain_kind kind = domain_kind::page_cache;

    static void copy_nontemporal(void* target, const void* source, std::size_t bytes, site /*where*/) noexcept {
        std::memcpy(target, source, bytes);
    }
    static void copy_line(void* target, const line_words& line, site where) noexcept {
        copy_words(target, line, where);
    }
    static void flush(const void* /*begin*/, std::size_t /*bytes*/, site /*where*/) noexcept {}
    /// A killed thread has executed a prefix of its instructions: only the compiler must keep the order.
    static void fence(site /*where*/) noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

static_assert(persistence_domain<dax_domain>);
static_assert(persistence_domain<emulated_domain>);
static_assert(persistence_domain<eadr_domain>);
static_assert(persistence_domain<page_cache_domain>);

/// The domain of an open file: `dax` or `eadr` where a mapping with MAP_SYNC succeeds, else `page_cache`.
/// `path` is for messages.
[[nodiscard]] base::result<domain_kind> detect_domain(int fd, const std::string& path);

/// The flags of mmap for which a store, flushed and fenced, is durable without a further system call.
[[nodiscard]] int synchronous_mapping_flags() noexcept;

/// Whether the platform says, of every region of persistent memory it has, that the caches of the processor belong to
/// the domain. `nd_devices` is the directory in which the kernel tells so.
[[nodiscard]] bool caches_are_persistent(const std::string& nd_devices = "/sys/bus/nd/devices");

}  // namespace holdfast::persist
