// All metadata that an adversary wrote, checksums repaired. A reader and a writer both refuse the heap, or both open
// it. If check() names no problem, all operations succeed, and it finds none afterwards; if it does, blocks handed out
// lie in the heap and are disjoint, and nothing crashes, hangs or grows without bound.
//
// Control bits: 8 and 9 the damaged heap (crashed, with a commit in its log, closed); 10 work with a heap that
// check() found wrong; 11 close without commit; 12 copy; 13 to 15 vary the work: alignments, until space runs out,
// verify pages at the open.
#include <map>
#include <memory>
#include <optional>

#include "heap/heap.hpp"
#include "segment/fuzz/fuzz_support.hpp"

namespace {

using namespace holdfast;           // NOLINT(google-build-using-namespace): a program of one file
using namespace holdfast::segment;  // NOLINT(google-build-using-namespace)
using base::failure_code;
using persist::access_mode;

constexpr unsigned control_heap = first_control_bit;
constexpr unsigned control_go_on = 1U << (first_control_bit + 2);
constexpr unsigned control_no_commit = 1U << (first_control_bit + 3);
constexpr unsigned control_copy = 1U << (first_control_bit + 4);
constexpr unsigned control_variant = first_control_bit + 5;
constexpr unsigned control_full = 2U << control_variant;
constexpr unsigned control_verify = 4U << control_variant;

constexpr std::array<std::uint64_t, 10> sizes{8, 16, 24, 64, 100, 500, 3000, 14336, 20000, 300000};

struct made_heaps {
    std::vector<fuzz_media> media;
    std::vector<std::uint64_t> offsets;  ///< of blocks that were once allocated
};

heap::object_entry named(const std::string& name, std::uint64_t offset) {
    heap::object_entry entry;
    entry.name = name;
    entry.type = "t";
    entry.description = std::string(name.size() * 11, 'd');
    entry.offset = offset;
    entry.count = 1;
    entry.type_size = 8;
    return entry;
}

std::uint32_t type_at(std::uint64_t bytes, std::uint64_t i) {
    return bytes == 64 || bytes == 20000 ? static_cast<std::uint32_t>(i % 3) : 0;
}

/// A third of them are freed; some have objects.
void fill(heap::engine& engine, const std::string& prefix, std::uint64_t blocks_each,
          std::vector<std::uint64_t>& offsets) {
    const std::size_t first = offsets.size();
    for (const std::uint64_t bytes : sizes) {
        for (std::uint64_t i = 0; i < blocks_each; ++i) {
            void* const block = engine.allocate(bytes, 8, type_at(bytes, i));
            std::memset(block, 0x11, std::min<std::uint64_t>(bytes, 64));
            offsets.push_back(engine.files().view().offset(block).value);
        }
    }
    for (std::size_t i = first; i < offsets.size(); i += 3) {
        must(engine.deallocate(engine.files().view().address({offsets[i]})));
    }
    for (std::size_t i = 0; i < 6; ++i) {
        heap::object_entry entry = named(prefix + std::string(i * 17, 'n'), offsets[first + 3 * i + 1]);
        entry.kind = i < 3   ? heap::object_kind::named
                     : i < 5 ? heap::object_kind::unique
                             : heap::object_kind::anonymous;
        entry.name = i < 3 ? entry.name : "";
        entry.type = prefix + std::to_string(i);
        must(engine.objects().insert(entry));
    }
    must(engine.objects().describe_heap(prefix));
}

made_heaps make_heaps() {
    heap::engine_options options;
    options.files.segment_size = minimum_segment_size;
    options.files.mapping.reservation = std::uint64_t{1} << 30U;
    const std::string path = fuzz_directory() + "/made";
    const auto engine = must(heap::engine::create(path, options));
    made_heaps made;
    fill(*engine, "one", 3, made.offsets);
    must(engine->commit());
    made.media.emplace_back(path);
    fill(*engine, "two", 4, made.offsets);  // reaches into a second segment
    must(engine->commit());
    made.media.push_back(fuzz_media(path).with_commit_pending(made.media.front()));
    must(engine->close(true));
    made.media.emplace_back(path);
    return made;
}

/// Of records that begin on changed pages.
void repair_object_records(fuzz_media& media) {
    for (const std::uint64_t page : media.touched(objects_file_id)) {
        if (page % objects_group_pages == 0) {
            continue;
        }
        for (std::uint64_t at = page * base::page_size; at < (page + 1) * base::page_size; at += heap::cell_size) {
            auto header = media.read<heap::object_record_on_media>(objects_file_id, at);
            const std::uint64_t text =
                std::uint64_t{header.name_length} + header.type_length + header.description_length;
            if (header.magic != heap::object_magic || heap::cells_for(text) > heap::cells_per_group) {
                continue;
            }
            header.cells = static_cast<std::uint32_t>(heap::cells_for(text));
            header.checksum = 0;
            base::running_checksum sum;
            sum.add(std::as_bytes(std::span{&header, 1}));
            for (std::uint64_t cell = 1; cell < header.cells; ++cell) {
                using cell_bytes = std::array<std::byte, heap::cell_size>;
                sum.add(media.read<cell_bytes>(objects_file_id, at + cell * heap::cell_size));
            }
            header.checksum = sum.value();
            media.write(objects_file_id, at, header);
        }
    }
}

/// `sound`: all operations must succeed.
class program {
public:
    program(heap::engine& engine, const std::vector<std::uint64_t>& offsets, unsigned variant, bool sound)
        : engine_(engine), offsets_(offsets), variant_(variant), sound_(sound) {}

    void inspect_all() {
        for (const auto kind : {heap::object_kind::named, heap::object_kind::unique, heap::object_kind::anonymous}) {
            const auto listed = engine_.objects().list(kind);
            expect(listed.ok(), "objects cannot be listed");
            for (const auto& entry : listed ? listed.value() : std::vector<heap::object_entry>{}) {
                inspect(entry);
            }
            expect(engine_.objects().count(kind).ok(), "objects cannot be counted");
        }
        expect(engine_.objects().heap_description().ok(), "no description of the heap");
        const auto numbers = engine_.statistics();
        expect(numbers.ok(), "no statistics");
        if (numbers && numbers.value().allocated_bytes > numbers.value().user_bytes) {
            finding("more bytes are allocated than there are");
        }
        for (const std::uint64_t offset : offsets_) {
            const auto size = engine_.blocks().inspect().usable_size(engine_.files().view().address({offset}));
            if (size && size.value() > frontier() - std::min(offset, frontier())) {
                finding("a block reaches beyond the heap");
            }
        }
    }

    void allocate() {
        const bool aligned = (variant_ & 1U) != 0;
        const unsigned times = (variant_ & 2U) != 0 ? 15 : 3;
        for (auto bytes = sizes.rbegin(); bytes != sizes.rend(); ++bytes) {
            for (unsigned i = 0; i < times; ++i) {
                allocate_one(*bytes, aligned ? std::uint64_t{64} << i % 8 : 8);
            }
        }
    }

    void change_objects() {
        if (!blocks_.empty()) {
            const std::uint64_t offset = blocks_.begin()->first;
            const auto inserted = engine_.objects().insert(named("new", offset));
            expect(inserted.ok(), "an object cannot be made");
            const bool told = engine_.objects().describe_at(offset, std::string(500, 'x')).ok();
            expect(told || !inserted, "an object cannot be described");
            expect(engine_.objects().erase_at(offset).ok() || !inserted, "an object cannot be erased");
        }
        expect(engine_.objects().describe_heap("changed").ok(), "the heap cannot be described");
        if (const auto listed = engine_.objects().list(heap::object_kind::named); listed && !listed.value().empty()) {
            expect(engine_.objects().erase_at(listed.value().front().offset).ok(), "an old object cannot be erased");
        }
    }

    void free() {
        bool odd = false;
        for (auto at = blocks_.begin(); at != blocks_.end(); odd = !odd) {
            if (odd) {
                ++at;
                continue;
            }
            expect(engine_.deallocate(engine_.files().view().address({at->first})).ok(), "a block cannot be freed");
            at = blocks_.erase(at);
        }
        for (const std::uint64_t offset : offsets_) {
            free_at(offset);
            free_at(offset + base::page_size);
        }
    }

private:
    [[nodiscard]] std::uint64_t frontier() const { return base::to_bytes(engine_.files().frontier()); }

    void expect(bool right, const char* what) const {
        if (sound_ && !right) {
            finding(std::string("in a heap that check() found sound: ") + what);
        }
    }

    /// Unless it is an object's block.
    void free_at(std::uint64_t offset) {
        if (const auto object = engine_.objects().find_at(offset); object && !object.value()) {
            static_cast<void>(engine_.try_deallocate(engine_.files().view().address({offset})));
            blocks_.erase(offset);
        }
        if (engine_.try_deallocate(engine_.files().view().address({offset + 1}))) {
            finding("an address that starts no block was freed");
        }
    }

    void inspect(const heap::object_entry& entry) {
        const auto found = engine_.objects().find_at(entry.offset);
        expect(found.ok() && found.value().has_value(), "an object that is listed is not found");
        const bool unique = entry.kind == heap::object_kind::unique;
        const auto same = engine_.objects().find(entry.kind, unique ? entry.type : entry.name);
        expect(same.ok() && same.value().has_value() == (entry.kind != heap::object_kind::anonymous),
               "an object is not found by its name");
        const auto bytes = base::checked_multiply(entry.count, entry.type_size);
        if (!bytes || entry.offset > frontier() || *bytes > frontier() - entry.offset) {
            finding("an object lies outside the heap");
        }
        const auto size = engine_.blocks().inspect().usable_size(engine_.files().view().address({entry.offset}));
        expect(size.ok() && size.value() >= *bytes, "an object has no block");
    }

    void allocate_one(std::uint64_t bytes, std::uint64_t alignment) {
        const std::uint32_t type = type_at(bytes, alignment / 64);
        void* const block = engine_.allocate(bytes, alignment, type);
        if (block == nullptr) {
            const failure_code code = heap::engine::last_failure().code;
            return expect(code == failure_code::no_space || code == failure_code::limit, "no memory");
        }
        const std::uint64_t offset = engine_.files().view().offset(block).value;
        if (offset % std::max<std::uint64_t>(alignment, 8) != 0 || offset >= frontier() ||
            bytes > frontier() - offset) {
            finding("a block that is misplaced");
        }
        const auto found = engine_.blocks().inspect().type_of(block);
        expect(found.ok() && found.value() == type, "a block has another type");
        const auto next = blocks_.lower_bound(offset);
        if ((next != blocks_.end() && next->first < offset + bytes) ||
            (next != blocks_.begin() && std::prev(next)->second > offset)) {
            finding("a block that overlaps another");
        }
        blocks_.emplace(offset, offset + bytes);
        std::memset(block, 0x5a, bytes);
    }

    heap::engine& engine_;
    const std::vector<std::uint64_t>& offsets_;
    unsigned variant_;
    bool sound_;
    std::map<std::uint64_t, std::uint64_t> blocks_;  ///< begin -> end of blocks from allocate()
};

/// Checksums all that a program can see.
std::uint64_t content_of(heap::engine& engine) {
    const heap_files& files = engine.files();
    base::running_checksum sum;
    sum.add({files.view().base(), base::to_bytes(files.frontier())});
    for (std::uint64_t i = 0; i < base::divide_up(files.frontier().value, files.view().shape().pages()); ++i) {
        sum.add({files.view().metadata_of(i), files.view().shape().metadata_size()});
    }
    sum.add({files.objects(), files.objects_size()});
    return sum.value();
}

struct what_was_read {
    std::uint64_t content = 0;
    bool sound = false;
};

std::optional<what_was_read> read(const std::string& path, const made_heaps& made, unsigned control) {
    static_cast<void>(heap::read_superblock(path).ok());
    const auto opened = heap::engine::open(path, access_mode::read_only, {});
    if (!opened) {
        expect_telling(opened.error());
        return std::nullopt;
    }
    heap::engine& engine = *opened.value();
    what_was_read found;
    found.content = (engine.files().replayed().commits != 0) ? content_of(engine) : 0;
    found.sound = engine.check((control & control_copy) != 0).empty();
    program(engine, made.offsets, 0, found.sound).inspect_all();
    return found;
}

void copy(const std::string& path, bool sound) {
    const std::string target = path + "-copy";
    std::filesystem::remove_all(target);
    if (const auto copied = heap::copy(path, target); !copied) {
        if (sound) {
            finding("a sound heap cannot be copied: " + copied.error().message());
        }
        return;
    }
    const auto opened = must(heap::engine::open(target, access_mode::read_only, {}));
    if (const auto problems = opened->check(true); sound && !problems.empty()) {
        finding("a copy has a problem: " + problems.front());
    }
}

/// A closed heap's files end with its space. If a superblock gives a smaller size, the rest comes back as damage when
/// the heap grows, so such a heap need not stay sound.
bool ends_with_its_files(const heap::engine& engine) {
    const superblock_on_media& superblock = engine.files().superblock();
    return superblock.frontier % superblock.segment_size == 0 &&
           superblock.objects_size == std::filesystem::file_size(engine.files().paths().objects());
}

/// True if it must be sound afterwards.
bool write(const std::string& path, const made_heaps& made, unsigned control,
           const std::optional<what_was_read>& read) {
    heap::engine_options options;
    options.files.mapping.verify = (control & control_verify) != 0;
    options.files.mapping.capacity = (control & control_full) != 0 ? 6 * base::mebibyte : 0;
    const auto opened = heap::engine::open(path, access_mode::read_write, options);
    const bool may_differ = options.files.mapping.verify || (!opened && segment::is_not_ours_to_write(opened.error()));
    if (opened.ok() != read.has_value() && !may_differ) {
        finding("reader or writer refuses what the other opens: " + (opened ? "" : opened.error().message()));
    }
    if (!opened) {
        expect_telling(opened.error());
        return false;
    }
    heap::engine& engine = *opened.value();
    if (read && (engine.files().replayed().commits != 0) && read->content != content_of(engine)) {
        finding("reader and writer see different content");
    }
    const bool sound = engine.check(true).empty() && ends_with_its_files(engine);
    if (!sound && (control & control_go_on) == 0) {
        return false;
    }
    program work(engine, made.offsets, control >> control_variant, sound);
    work.inspect_all();
    work.allocate();
    work.change_objects();
    work.free();
    work.inspect_all();
    if (const auto problems = engine.check(false); sound && !problems.empty()) {
        finding("a sound heap has a problem after work: " + problems.front());
    }
    const auto done = engine.close((control & control_no_commit) == 0);
    if (sound && !done && done.error().code != failure_code::limit) {  // the number of commits is at its limit
        finding("a sound heap cannot be closed: " + done.error().message());
    }
    return sound;
}

void examine(const std::string& path, const made_heaps& made, unsigned control) {
    const auto before = read(path, made, control);
    if (before && (control & control_copy) != 0) {
        copy(path, before->sound);
    }
    const bool sound = write(path, made, control, before);
    const auto again = heap::engine::open(path, access_mode::read_only, {});
    if (!again) {
        if (sound) {
            finding("a sound heap does not open again: " + again.error().message());
        }
        return;
    }
    if (const auto problems = again.value()->check(sound); sound && !problems.empty()) {
        finding("a sound heap has a problem afterwards: " + problems.front());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const made_heaps made = make_heaps();
    const fuzz_input input({data, size});
    fuzz_media media = made.media.at((input.control >> control_heap & 3U) % made.media.size());
    for (const auto& record : input.records) {
        media.apply(fuzz_input::edit(record));
    }
    if ((input.control & repair_records) != 0) {
        repair_object_records(media);
    }
    media.repair(input.control);
    const std::string path = fuzz_directory() + "/heap";
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    must(media.image().materialise(fuzz_media::directory, path));
    examine(path, made, input.control);
    return 0;
}
