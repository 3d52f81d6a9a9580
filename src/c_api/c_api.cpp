#include "c_api/c_api.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::c_api {

namespace {

constexpr bool same(hf_code code, errc reason) {
    return static_cast<std::uint32_t>(code) == static_cast<std::uint32_t>(reason);
}
static_assert(same(HF_OK, errc::none) && same(HF_INVALID_ARGUMENT, errc::invalid_argument));
static_assert(same(HF_NOT_A_HEAP, errc::not_a_heap) && same(HF_VERSION_UNSUPPORTED, errc::version_unsupported));
static_assert(same(HF_CORRUPT, errc::corrupt) && same(HF_MISSING, errc::missing));
static_assert(same(HF_ALREADY_EXISTS, errc::already_exists) && same(HF_NOT_FOUND, errc::not_found));
static_assert(same(HF_LOCKED, errc::locked) && same(HF_READ_ONLY, errc::read_only));
static_assert(same(HF_PERMISSION, errc::permission) && same(HF_NO_SPACE, errc::no_space));
static_assert(same(HF_ADDRESS_TAKEN, errc::address_taken) && same(HF_IO, errc::io));
static_assert(same(HF_TYPE_MISMATCH, errc::type_mismatch) && same(HF_NAME_EXISTS, errc::name_exists));
static_assert(same(HF_PROMISE_UNAVAILABLE, errc::promise_unavailable) && same(HF_WRONG_PROCESS, errc::wrong_process));
static_assert(same(HF_CONCURRENT_MODIFICATION, errc::concurrent_modification) && same(HF_POISONED, errc::poisoned));
static_assert(same(HF_LIMIT, errc::limit) && same(HF_OUT_OF_MEMORY, errc::out_of_memory));
static_assert(same(HF_BAD_ADDRESS, errc::bad_address) && same(HF_UNSUPPORTED, errc::unsupported));
static_assert(HF_DURABILITY_COMMIT == static_cast<int>(durability::commit) &&
              HF_DURABILITY_COLLECT == static_cast<int>(durability::collect) &&
              HF_DURABILITY_ATOMIC == static_cast<int>(durability::atomic));
static_assert(HF_DOMAIN_DETECT == static_cast<int>(open_options::domain_choice::detect) &&
              HF_DOMAIN_EMULATED == static_cast<int>(open_options::domain_choice::emulated) &&
              HF_DOMAIN_PAGE_CACHE == static_cast<int>(open_options::domain_choice::page_cache) &&
              HF_DOMAIN_DISK == static_cast<int>(open_options::domain_choice::disk));
static_assert(HF_HUGE_PAGES_ADVISE == static_cast<int>(open_options::page_choice::advise) &&
              HF_HUGE_PAGES_NONE == static_cast<int>(open_options::page_choice::none) &&
              HF_HUGE_PAGES_AT_ONCE == static_cast<int>(open_options::page_choice::at_once));
static_assert(HF_ROOT_COUNT == manager::root_count);
static_assert(sizeof(hf_ptr) == sizeof(ptr<void>) && alignof(hf_ptr) == alignof(ptr<void>));

thread_local hf_code last_code = HF_OK;

/// What this thread was told last; null before that, and where there is no memory for it. It is no thread_local,
/// because a library that is loaded late, as Python's module is, gets only some 1,600 bytes of those, which it shares
/// with others.
constexpr std::size_t sentence_size = 1024;
char* last_sentence(bool make) noexcept {
    static const std::optional<pthread_key_t> key = [] {
        pthread_key_t made{};
        return ::pthread_key_create(&made, std::free) == 0 ? std::optional(made) : std::nullopt;
    }();
    if (!key) {
        return nullptr;
    }
    void* sentence = ::pthread_getspecific(*key);
    if (sentence == nullptr && make) {
        void* const zeros = std::calloc(1, sentence_size);  // lint-allow(hand-memory): where there is no more, too
        std::unique_ptr<void, void (*)(void*)> made(zeros, &std::free);
        if (made != nullptr && ::pthread_setspecific(*key, made.get()) == 0) {
            sentence = made.release();
        }
    }
    return static_cast<char*>(sentence);
}

constexpr std::array code_names{"ok",
                                "invalid_argument",
                                "not_a_heap",
                                "version_unsupported",
                                "corrupt",
                                "missing",
                                "already_exists",
                                "not_found",
                                "locked",
                                "read_only",
                                "permission",
                                "no_space",
                                "address_taken",
                                "io",
                                "type_mismatch",
                                "name_exists",
                                "promise_unavailable",
                                "wrong_process",
                                "concurrent_modification",
                                "poisoned",
                                "limit",
                                "out_of_memory",
                                "bad_address",
                                "unsupported"};
static_assert(code_names.size() == HF_UNSUPPORTED + 1);

open_options options_of(const hf_options* given) {
    open_options options;
    if (given == nullptr) {
        return options;
    }
    constexpr hf_options defaults = HF_OPTIONS_INIT;
    const hf_options known = known_part(*given, defaults, "options", "HF_OPTIONS_INIT");
    if (known.durability > static_cast<std::uint32_t>(durability::atomic)) {
        throw_invalid("options->durability", std::to_string(known.durability), "0 to 3");
    }
    if (known.durability != 0) {
        options.durability = static_cast<durability>(known.durability);
    }
    options.same_address = known.same_address != 0;
    options.verify = known.verify != 0;
    options.commit_on_close = known.no_commit_on_close == 0;
    options.reservation = known.reservation;
    options.segment_size = known.segment_size;
    options.maximum_size = known.maximum_size;
    options.maximum_uncommitted = known.maximum_uncommitted;
    options.base_address = known.base_address;
    if (known.domain > HF_DOMAIN_DISK) {
        throw_invalid("options->domain", std::to_string(known.domain), "0 to 3");
    }
    options.domain = static_cast<open_options::domain_choice>(known.domain);
    options.accept_process_crash_only = known.accept_process_crash_only != 0;
    options.accept_machine_restart = known.accept_machine_restart != 0;
    if (known.huge_pages > HF_HUGE_PAGES_AT_ONCE) {
        throw_invalid("options->huge_pages", std::to_string(known.huge_pages), "0 to 2");
    }
    options.huge_pages = static_cast<open_options::page_choice>(known.huge_pages);
    for (std::uint32_t node = 0; node < known.nodes; ++node) {
        const char* const* const directories = &required(known.node_directories, "options->node_directories");
        options.node_directories.emplace_back(&required(directories[node], "options->node_directories[]"));
    }
    options.hardened = known.hardened != 0;
    options.separate_cache_lines = known.separate_cache_lines != 0;
    options.precise_recovery = known.precise_recovery != 0;
    options.check_transactions = known.check_transactions != 0;
    options.shared = known.shared != 0;
    options.upkeep_thread = known.upkeep_thread != 0;
    options.before_trace = c_api::calls_before_trace(known);
    if (known.decay_ms != 0) {
        options.decay = std::chrono::milliseconds(known.decay_ms);
    }
    return options;
}

template <class Mode>
hf_code open_as(Mode mode, const char* path, const hf_options* options, hf_heap** heap) noexcept {
    return guarded([&] {
        required(path, "path");
        hf_heap*& handle = required(heap, "heap");
        auto opened = std::make_unique<hf_heap>(manager(mode, path, options_of(options)));
        handle = opened.release();
    });
}

}  // namespace

hf_code remember(hf_code code, std::string_view sentence) noexcept {
    if (char* const to = last_sentence(true); to != nullptr) {
        to[sentence.copy(to, sentence_size - 1)] = '\0';
    }
    return last_code = code;
}

void throw_invalid(std::string_view argument, std::string_view found, std::string_view expected) {
    std::string sentence = "invalid_argument: ";
    sentence.append(argument).append(": found ").append(found).append(", expected ").append(expected);
    throw error(errc::invalid_argument, sentence,
                {{}, std::string(argument), std::string(found), std::string(expected), {}, 0});
}

void throw_unless_sized(std::size_t size, std::string_view name, std::string_view initialiser) {
    if (size < sizeof(std::size_t)) {
        throw_invalid(std::string(name) + "->size", std::to_string(size),
                      "the size of the struct, by " + std::string(initialiser));
    }
}

void throw_unless_known(const void* given, std::size_t size, std::size_t known, std::string_view name,
                        std::string_view initialiser) {
    throw_unless_sized(size, name, initialiser);
    const auto* const bytes = static_cast<const unsigned char*>(given);
    if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
        throw_invalid(name, "fields that this version of the library does not know", "zeros there");
    }
}

hf_code remember_exception() noexcept {
    try {
        throw;
    } catch (const error& caught) {
        return remember(static_cast<hf_code>(caught.reason()), caught.what());
    } catch (const bad_alloc& caught) {
        return remember(static_cast<hf_code>(caught.reason()), caught.what());
    } catch (const std::bad_alloc&) {
        return remember(HF_OUT_OF_MEMORY, "out_of_memory: the process has no memory left");
    } catch (const std::exception& caught) {
        return remember(HF_IO, caught.what());
    } catch (...) {
        return remember(HF_IO, "io: an exception of unknown type");
    }
}

namespace {
/// Of a heap that was discarded while transactions or indexes lead to its handle: they may end at any time.
void keep_for_good(std::unique_ptr<hf_heap> handle) noexcept {
    static std::atomic<hf_heap*> newest{nullptr};
    hf_heap* const kept = handle.release();
    kept->next_kept = newest.exchange(kept);
}
}  // namespace

heap_user::heap_user(hf_heap* heap) : heap_(required(heap, "heap")) { ++heap_.indexes; }
heap_user::~heap_user() { --heap_.indexes; }
manager& heap_user::heap() const noexcept { return heap_.manager; }

manager& heap_of(hf_heap* heap) { return manager_of(heap); }

}  // namespace holdfast::c_api

using holdfast::c_api::guarded;
using holdfast::c_api::manager_of;
using holdfast::c_api::required;

const char* hf_errormsg(void) {
    using holdfast::c_api::last_code;
    const char* const sentence = holdfast::c_api::last_sentence(false);
    return sentence != nullptr ? sentence : last_code == HF_OK ? "" : hf_code_name(last_code);
}
hf_code hf_errorcode(void) { return holdfast::c_api::last_code; }

const char* hf_code_name(hf_code code) {
    const auto index = static_cast<std::size_t>(code);
    return index < holdfast::c_api::code_names.size() ? holdfast::c_api::code_names[index] : "unknown";
}

const char* hf_version(void) { return HOLDFAST_VERSION; }

hf_code hf_create(const char* path, const hf_options* options, hf_heap** heap) {
    return holdfast::c_api::open_as(holdfast::create_only, path, options, heap);
}
hf_code hf_open(const char* path, const hf_options* options, hf_heap** heap) {
    return holdfast::c_api::open_as(holdfast::open_only, path, options, heap);
}
hf_code hf_open_or_create(const char* path, const hf_options* options, hf_heap** heap) {
    return holdfast::c_api::open_as(holdfast::open_or_create, path, options, heap);
}
hf_code hf_open_read_only(const char* path, const hf_options* options, hf_heap** heap) {
    return holdfast::c_api::open_as(holdfast::open_read_only, path, options, heap);
}

hf_code hf_close(hf_heap* heap) {
    if (heap == nullptr) {
        return HF_OK;
    }
    const hf_code closed = guarded([&] {
        if (const std::uint64_t open = heap->users(); open != 0) {
            holdfast::c_api::throw_invalid("heap", std::to_string(open) + " open transactions or indexes", "none");
        }
        heap->manager.close();
    });
    if (closed == HF_OK) {
        const std::unique_ptr<hf_heap> owner(heap);
    }
    return closed;
}

hf_code hf_discard(hf_heap* heap) {
    if (heap == nullptr) {
        return HF_OK;
    }
    std::unique_ptr<hf_heap> owner(heap);
    const hf_code closed = guarded([&] { owner->manager.close(false); });
    if (closed == HF_WRONG_PROCESS) {
        const holdfast::manager gone(std::move(owner->manager));
        holdfast::c_api::keep_for_good(std::move(owner));  // other threads of the parent may have been changing it
    } else if (owner->users() != 0) {
        holdfast::c_api::keep_for_good(std::move(owner));
    }
    return closed;
}

hf_code hf_commit(hf_heap* heap) {
    return guarded([&] { manager_of(heap).commit(); });
}

hf_code hf_snapshot(hf_heap* heap, const char* destination) {
    return guarded([&] { manager_of(heap).snapshot(&required(destination, "destination")); });
}

hf_code hf_copy(const char* source, const char* destination) {
    return guarded(
        [&] { holdfast::manager::copy(&required(source, "source"), &required(destination, "destination")); });
}

hf_code hf_copy_placed(const char* source, const char* destination, const hf_options* options) {
    return guarded([&] {
        holdfast::manager::copy(&required(source, "source"), &required(destination, "destination"),
                                holdfast::c_api::options_of(options).node_directories);
    });
}

hf_code hf_remove(const char* path) {
    return guarded([&] {
        if (!holdfast::manager::remove(&required(path, "path"))) {
            throw holdfast::error(holdfast::errc::not_found, std::string("not_found: ") + path + ": nothing is there",
                                  {path, {}, {}, {}, {}, 0});
        }
    });
}

int hf_consistent(const char* path) {
    bool consistent = false;
    const hf_code asked = guarded([&] { consistent = holdfast::manager::consistent(&required(path, "path")); });
    return asked == HF_OK && consistent ? 1 : 0;
}

void* hf_allocate(hf_heap* heap, size_t bytes) {
    void* block = nullptr;
    static_cast<void>(guarded([&] { block = manager_of(heap).allocate(bytes); }));
    return block;
}

void* hf_allocate_aligned(hf_heap* heap, size_t bytes, size_t alignment) {
    void* block = nullptr;
    static_cast<void>(guarded([&] { block = manager_of(heap).allocate_aligned(bytes, alignment); }));
    return block;
}

hf_code hf_free(hf_heap* heap, void* address) {
    return guarded([&] { manager_of(heap).deallocate(address); });
}

size_t hf_usable_size(const hf_heap* heap, const void* address) {
    std::size_t bytes = 0;
    static_cast<void>(guarded([&] { bytes = manager_of(heap).usable_size(address); }));
    return bytes;
}

void* hf_ptr_get(const hf_ptr* pointer) { return holdfast::c_api::word_of(pointer).get(); }
void hf_ptr_set(hf_ptr* pointer, const void* target) { holdfast::c_api::word_of(pointer) = const_cast<void*>(target); }

void* hf_root_get(const hf_heap* heap, size_t index) {
    void* target = nullptr;
    static_cast<void>(guarded([&] { target = manager_of(heap).root(index).get(); }));
    return target;
}

hf_code hf_root_set(hf_heap* heap, size_t index, const void* target) {
    return guarded([&] {
        holdfast::manager& manager = manager_of(heap);
        holdfast::ptr<void>& root = manager.root(index);
        if (target != nullptr) {
            static_cast<void>(manager.get_handle_from_address(target));  // throws for an address outside the heap
        }
        root = const_cast<void*>(target);
    });
}

void* hf_base(const hf_heap* heap) { return heap == nullptr ? nullptr : heap->manager.get_address(); }

int hf_contains(const hf_heap* heap, const void* address) {
    return heap != nullptr && heap->manager.belongs_to_segment(address) ? 1 : 0;
}

hf_code hf_get_statistics(const hf_heap* heap, hf_statistics* statistics) {
    return guarded([&] {
        const holdfast::heap_statistics in = manager_of(heap).statistics();
        const hf_statistics known{0,
                                  in.reserved_address_space,
                                  in.user_bytes,
                                  in.allocated_bytes,
                                  in.allocated_blocks,
                                  in.free_bytes,
                                  in.largest_free_block,
                                  in.apparent_bytes,
                                  in.charged_bytes,
                                  in.segments,
                                  in.slabs,
                                  in.extents,
                                  in.named_objects,
                                  in.unique_objects,
                                  in.anonymous_objects,
                                  in.commit_sequence,
                                  in.last_commit_ns,
                                  in.created_ns,
                                  in.recoveries,
                                  in.recovered ? 1U : 0U,
                                  in.rolled_forward ? 1U : 0U,
                                  in.guard_ranges,
                                  in.log_commits,
                                  in.log_bytes,
                                  in.watched_bytes,
                                  in.private_bytes};
        holdfast::c_api::fill_known_part(statistics, known, "statistics", "HF_STATISTICS_INIT");
    });
}

hf_code hf_check(const hf_heap* heap, int pages, size_t* problems, hf_problem_visitor report, void* context) {
    return guarded([&] {
        std::size_t& count = required(problems, "problems");
        const auto found = manager_of(heap).check(pages != 0);
        if (report != nullptr) {
            for (const std::string& problem : found) {
                report(problem.c_str(), context);
            }
        }
        count = found.size();
    });
}

hf_code hf_last_comparison(const hf_heap* heap, uint64_t* compared, uint64_t* without_checksum) {
    return guarded([&] {
        const holdfast::manager::page_comparison last = manager_of(heap).last_comparison();
        if (compared != nullptr) {
            *compared = last.compared;
        }
        if (without_checksum != nullptr) {
            *without_checksum = last.without_checksum;
        }
    });
}

hf_code hf_uuid(const hf_heap* heap, char* uuid) {
    return guarded([&] {
        char* const out = &required(uuid, "uuid");
        const std::string text = manager_of(heap).get_uuid();
        const std::size_t kept = std::min<std::size_t>(text.size(), HF_UUID_SIZE - 1);
        std::copy_n(text.data(), kept, out);
        out[kept] = '\0';
    });
}
