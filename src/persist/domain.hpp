// How far a store to mapped memory must travel to survive a crash. A concept lets the crash simulator replace the
// hardware without virtual calls. Thread-safe. What every domain promises:
//
//   - store(), fetch_or(), fetch_and(), replace_if(): the 8 bytes reach the media as a whole, at any time from now on.
//   - copy(), fill_zero(), copy_nontemporal(), copy_line() (64 aligned bytes): before a fence, any subset of the 8-byte
//     words may be on the media.
//   - flush() and then fence() in the same thread: the range and every completed copy_nontemporal() and copy_line() are
//     as durable as the domain can make them.
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
#include "persist/mutant.hpp"
#include "persist/storage.hpp"
#include "persist/sync.hpp"

namespace holdfast::persist {

enum class domain_kind : std::uint8_t {
    dax,         ///< byte-addressable media: durable after flush and fence
    eadr,        ///< dax with processor caches that survive a power loss: durable after a fence
    page_cache,  ///< any file: survives a process crash at once, a power loss only by commit()
    emulated,    ///< the instructions of dax without its media, for tests and benchmarks
    disk,        ///< any file: durable after a system call that syncs the page
};

[[nodiscard]] std::string_view to_string(domain_kind kind) noexcept;

using line_words = std::uint64_t[8];

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

inline void store_word(std::uint64_t& word, std::uint64_t value) noexcept {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

class storing_domain {
public:
    static void store(std::uint64_t& word, std::uint64_t value, site /*where*/) noexcept { store_word(word, value); }
    static void copy(void* target, const void* source, std::size_t bytes, site /*where*/) noexcept {
        std::memcpy(target, source, bytes);
    }
    static void fill_zero(void* target, std::size_t bytes, site /*where*/) noexcept { std::memset(target, 0, bytes); }
    static void copy_words(void* target, const line_words& line, site /*where*/) noexcept {
        auto* const to = static_cast<volatile std::uint64_t*>(target);  // volatile: stores each word, in this order
        for (std::size_t i = 0; i < std::size(line); ++i) {
            to[i] = line[i];
        }
    }
    /// fetch_or() and fetch_and() return the old word.
    static std::uint64_t fetch_or(std::uint64_t& word, std::uint64_t bits, site /*where*/) noexcept {
        return std::atomic_ref<std::uint64_t>(word).fetch_or(bits, std::memory_order_acq_rel);
    }
    static std::uint64_t fetch_and(std::uint64_t& word, std::uint64_t bits, site /*where*/) noexcept {
        return std::atomic_ref<std::uint64_t>(word).fetch_and(bits, std::memory_order_acq_rel);
    }
    static bool replace_if(std::uint64_t& word, std::uint64_t expected, std::uint64_t value, site /*where*/) noexcept {
        return std::atomic_ref<std::uint64_t>(word).compare_exchange_strong(expected, value, std::memory_order_acq_rel);
    }
};

template <domain_kind Kind>
    requires(Kind == domain_kind::dax || Kind == domain_kind::emulated)
class flushing_domain : public storing_domain {
public:
    static constexpr domain_kind kind = Kind;

    flushing_domain() noexcept : flush_(flush_with(best_flush_method())) {}

    static void copy_nontemporal(void* target, const void* source, std::size_t bytes, site /*where*/) noexcept {
        tell_media(media_step::nontemporal, target, bytes);
        copy_around_cache(target, source, bytes);
    }
    static void copy_line(void* target, const line_words& line, site /*where*/) noexcept {
        tell_media(media_step::nontemporal, target, sizeof line);
        copy_line_around_cache(target, line);
    }
    void flush(const void* begin, std::size_t bytes, site /*where*/) const noexcept {
        tell_media(media_step::flush, begin, bytes);
        flush_(begin, bytes);
    }
    static void fence(site /*where*/) noexcept {
        tell_media(media_step::fence, nullptr, 0);
        drain();
    }

private:
    flush_function flush_;
};

using dax_domain = flushing_domain<domain_kind::dax>;
using emulated_domain = flushing_domain<domain_kind::emulated>;

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
    /// A killed thread has executed a prefix of its instructions, so only the compiler must keep the order of stores.
    static void fence(site /*where*/) noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

/// A fence syncs the flushed pages. It costs what a disk costs, so records go to a log instead (lane/record_log.hpp).
/// After a failure, fences make nothing durable.
class disk_domain : public storing_domain {
public:
    static constexpr domain_kind kind = domain_kind::disk;

    explicit disk_domain(mapped_sync& memory) noexcept : memory_(&memory) {}

    /// The range counts as flushed.
    void copy_nontemporal(void* target, const void* source, std::size_t bytes, site /*where*/) const noexcept {
        std::memcpy(target, source, bytes);
        memory_->note(target, bytes);
    }
    void copy_line(void* target, const line_words& line, site where) const noexcept {
        copy_words(target, line, where);
        memory_->note(target, sizeof line);
    }
    void flush(const void* begin, std::size_t bytes, site /*where*/) const noexcept { memory_->note(begin, bytes); }
    void fence(site /*where*/) const noexcept { memory_->sync(); }
    [[nodiscard]] bool has_failed() const noexcept { return memory_->has_failed(); }
    [[nodiscard]] base::failure failure() const { return memory_->failure(); }

private:
    mapped_sync* memory_;
};

static_assert(persistence_domain<dax_domain>);
static_assert(persistence_domain<emulated_domain>);
static_assert(persistence_domain<eadr_domain>);
static_assert(persistence_domain<page_cache_domain>);
static_assert(persistence_domain<disk_domain>);

/// `dax` or `eadr` where a mapping with MAP_SYNC succeeds, else `page_cache`.
[[nodiscard]] base::result<domain_kind> detect_domain(int fd, const std::string& path);

/// For mmap() in `dax` and `eadr`.
[[nodiscard]] int synchronous_mapping_flags() noexcept;

/// Whether every region of persistent memory has the `persistence_domain` "cpu_cache". False without regions.
[[nodiscard]] bool caches_are_persistent(const std::string& nd_devices = "/sys/bus/nd/devices");

}  // namespace holdfast::persist
