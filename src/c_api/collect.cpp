#include <holdfast/offline_heap.hpp>

#include "c_api/c_api.hpp"

using holdfast::c_api::guarded;
using holdfast::c_api::manager_of;
using holdfast::c_api::required;

struct hf_pointer_sink {
    holdfast::pointer_visitor& visit;
};
struct hf_offline {
    holdfast::offline_heap& heap;
};

namespace {

void fill(hf_collect_report& report, const holdfast::collect_report& in) {
    const hf_collect_report known{0,
                                  in.roots,
                                  in.blocks_reached,
                                  in.bytes_reached,
                                  in.blocks_freed,
                                  in.bytes_freed,
                                  in.refused_pointers,
                                  in.free_block_pointers,
                                  in.wild_pointers,
                                  in.nulled_pointers,
                                  in.unknown_type_blocks,
                                  in.mark_ns,
                                  in.sweep_ns,
                                  in.slabs_freed,
                                  in.extents_freed,
                                  in.slabs_quarantined,
                                  in.words_scanned,
                                  in.prepare_ns};
    holdfast::c_api::fill_known_part(&report, known, "report", "HF_COLLECT_REPORT_INIT");
}

}  // namespace

std::function<void(holdfast::offline_heap&)> holdfast::c_api::calls_before_trace(const hf_options& options) {
    if (options.before_trace == nullptr) {
        return {};
    }
    return [called = options.before_trace, context = options.before_trace_context](offline_heap& heap) {
        hf_offline offline{heap};
        if (const hf_code code = called(&offline, context); code != HF_OK) {
            const std::string name = hf_code_name(code);
            throw error(static_cast<errc>(code), name + ": before_trace: the program ended the open", {});
        }
    };
}

void* hf_offline_address(const hf_offline* heap, size_t* bytes) {
    void* address = nullptr;
    static_cast<void>(guarded([&] {
        const holdfast::offline_heap& of = required(heap, "heap").heap;
        if (bytes != nullptr) {
            *bytes = of.get_size();
        }
        address = of.get_address();
    }));
    return address;
}

hf_ptr* hf_offline_root(hf_offline* heap, size_t index) {
    hf_ptr* root = nullptr;
    static_cast<void>(guarded([&] { root = reinterpret_cast<hf_ptr*>(&required(heap, "heap").heap.root(index)); }));
    return root;
}

hf_code hf_offline_keep(hf_offline* heap, const void* address) {
    return guarded([&] { required(heap, "heap").heap.keep(address); });
}

hf_code hf_get_recovery_trace(const hf_heap* heap, hf_collect_report* report) {
    return guarded([&] {
        hf_collect_report& out = required(report, "report");
        const auto in = manager_of(heap).last_recovery_trace();
        if (!in) {
            throw holdfast::error(holdfast::errc::not_found,
                                  "not_found: " + manager_of(heap).path() +
                                      ": recovery: none by tracing: the heap had not crashed in durability collect",
                                  {});
        }
        fill(out, *in);
    });
}

hf_code hf_collect(hf_heap* heap, const hf_collect_options* options, hf_collect_report* report) {
    return guarded([&] {
        holdfast::collect_options wanted;
        if (options != nullptr) {
            const hf_collect_options given = holdfast::c_api::known_part(
                *options, hf_collect_options HF_COLLECT_OPTIONS_INIT, "options", "HF_COLLECT_OPTIONS_INIT");
            wanted.mode = given.precise != 0 ? holdfast::collect_options::marking::precise
                                             : holdfast::collect_options::marking::conservative;
            wanted.unknown_types = given.refuse_unknown != 0 ? holdfast::collect_options::unknown::fail
                                                             : holdfast::collect_options::unknown::conservative;
            wanted.dry_run = given.dry_run != 0;
            wanted.null_transient = given.null_transient != 0;
            wanted.threads = given.threads;
        }
        const holdfast::collect_report in = manager_of(heap).collect(wanted);
        if (report != nullptr) {
            fill(*report, in);
        }
    });
}

hf_code hf_register_type(hf_heap* heap, uint32_t type, uint64_t size, uint64_t stride, const hf_pointer_field* pointers,
                         size_t count, const char* name) {
    return guarded([&] {
        holdfast::type_layout layout{type, size, stride, {}, name == nullptr ? "" : name};
        if (count != 0) {
            static_cast<void>(required(pointers, "pointers"));
        }
        for (size_t i = 0; i < count; ++i) {
            layout.pointers.push_back({pointers[i].offset, pointers[i].raw != 0});
        }
        manager_of(heap).register_type(layout);
    });
}

hf_code hf_register_visitor(hf_heap* heap, uint32_t type, hf_type_visitor visitor, void* context) {
    return guarded([&] {
        holdfast::block_visitor inner;
        if (visitor != nullptr) {
            inner = [visitor, context](void* block, std::size_t bytes, holdfast::pointer_visitor& visit) {
                hf_pointer_sink sink{visit};
                visitor(block, bytes, &sink, context);
            };
        }
        manager_of(heap).register_visitor(type, std::move(inner));
    });
}

void hf_show_pointer(hf_pointer_sink* sink, hf_ptr* pointer) {
    if (sink != nullptr) {
        sink->visit.visit_pointer(pointer);
    }
}

void hf_show_address(hf_pointer_sink* sink, void** address) {
    if (sink != nullptr) {
        sink->visit.visit_address(static_cast<void*>(address));
    }
}

hf_code hf_set_free_filter(hf_heap* heap, hf_free_filter filter, void* context) {
    return guarded([&] {
        holdfast::free_filter inner;
        if (filter != nullptr) {
            inner = [filter, context](void* block) { return filter(block, context) != 0; };
        }
        manager_of(heap).set_free_filter(std::move(inner));
    });
}

hf_code hf_free_now(hf_heap* heap, void* address) {
    return guarded([&] { manager_of(heap).free_now(address); });
}
