#include "simulator/storage/sparse_content.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/units.hpp"

namespace holdfast::simulator {

namespace {

/// visit(page index, offset in page, length, position in range)
template <class Visit>
void split_by_page(std::uint64_t offset, std::uint64_t length, Visit visit) {
    for (std::uint64_t done = 0; done < length;) {
        const std::uint64_t at = offset + done;
        const std::uint64_t in_page = at % sparse_content::page_size;
        const std::uint64_t step = std::min(length - done, sparse_content::page_size - in_page);
        visit(at / sparse_content::page_size, in_page, step, done);
        done += step;
    }
}

}  // namespace

const sparse_content::page* sparse_content::find(std::uint64_t page_index) const noexcept {
    const std::uint64_t at = page_index / pages_per_chunk;
    return at < chunks_.size() && chunks_[at] ? chunks_[at]->pages[page_index % pages_per_chunk].get() : nullptr;
}

sparse_content::page& sparse_content::writable(std::uint64_t page_index) {
    const std::uint64_t at = page_index / pages_per_chunk;
    if (at >= chunks_.size()) {
        chunks_.resize(at + 1);
    }
    auto& owner = chunks_[at];
    if (!owner) {
        owner = std::make_shared<chunk>();
    } else if (owner.use_count() != 1) {
        owner = std::make_shared<chunk>(*owner);
    }
    owner->hashed = false;
    auto& slot = owner->pages[page_index % pages_per_chunk];
    if (!slot) {
        slot = std::make_shared<page>();
    } else if (slot.use_count() != 1) {
        slot = std::make_shared<page>(*slot);
    }
    slot->hashed = false;
    return *slot;
}

void sparse_content::drop(std::uint64_t page_index) {
    if (find(page_index) == nullptr) {
        return;
    }
    auto& owner = chunks_[page_index / pages_per_chunk];
    if (owner.use_count() != 1) {
        owner = std::make_shared<chunk>(*owner);
    }
    owner->hashed = false;
    owner->pages[page_index % pages_per_chunk].reset();
}

void sparse_content::resize(std::uint64_t bytes) {
    if (bytes < size_) {
        const std::uint64_t chunks_kept = base::divide_up(bytes, chunk_size);
        if (chunks_.size() > chunks_kept) {
            chunks_.resize(chunks_kept);
        }
        zero(bytes, std::min(size_, chunks_kept * chunk_size) - bytes);
    }
    size_ = bytes;
}

void sparse_content::write(std::uint64_t offset, std::span<const std::byte> data) {
    if (offset >= size_) {
        return;
    }
    data = data.first(std::min<std::uint64_t>(data.size(), size_ - offset));
    split_by_page(offset, data.size(), [&](auto index, auto in_page, auto step, auto done) {
        std::memcpy(writable(index).bytes.data() + in_page, data.data() + done, step);
    });
}

void sparse_content::zero(std::uint64_t offset, std::uint64_t length) {
    if (offset >= size_) {
        return;
    }
    split_by_page(offset, std::min(length, size_ - offset), [&](auto index, auto in_page, auto step, auto /*done*/) {
        const bool to_the_end = in_page == 0 && index * page_size + step == size_;
        if (step == page_size || to_the_end) {
            drop(index);
        } else if (find(index) != nullptr) {
            std::memset(writable(index).bytes.data() + in_page, 0, step);
        }
    });
}

void sparse_content::read(std::uint64_t offset, std::span<std::byte> buffer) const {
    HF_ASSERT(offset + buffer.size() <= size_);
    split_by_page(offset, buffer.size(), [&](auto index, auto in_page, auto step, auto done) {
        if (const page* found = find(index); found != nullptr) {
            std::memcpy(buffer.data() + done, found->bytes.data() + in_page, step);
        } else {
            std::memset(buffer.data() + done, 0, step);
        }
    });
}

bool sparse_content::equals(std::uint64_t offset, std::span<const std::byte> data) const {
    static constexpr std::array<std::byte, page_size> zeros{};
    if (offset + data.size() > size_) {
        return false;
    }
    bool same = true;
    split_by_page(offset, data.size(), [&](auto index, auto in_page, auto step, auto done) {
        const page* found = find(index);
        const std::byte* here = found != nullptr ? found->bytes.data() + in_page : zeros.data();
        same = same && std::memcmp(here, data.data() + done, step) == 0;
    });
    return same;
}

std::uint64_t sparse_content::hash_of(const page& one) {
    static const std::uint64_t of_zeros = base::checksum64(page{}.bytes);
    if (!one.hashed) {
        const std::uint64_t sum = base::checksum64(one.bytes);
        one.hash = sum == of_zeros ? 0 : sum;  // equals a hole
        one.hashed = true;
    }
    return one.hash;
}

std::uint64_t sparse_content::hash_of(const chunk& one) {
    if (!one.hashed) {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < one.pages.size(); ++i) {
            if (one.pages[i]) {
                const std::uint64_t of_page = hash_of(*one.pages[i]);
                sum += of_page != 0 ? mix(i, of_page) : 0;
            }
        }
        one.hash = sum;
        one.hashed = true;
    }
    return one.hash;
}

std::uint64_t sparse_content::hash() const {
    std::uint64_t sum = mix(size_);
    for (std::uint64_t i = 0; i < chunks_.size(); ++i) {
        if (chunks_[i]) {
            const std::uint64_t of_chunk = hash_of(*chunks_[i]);
            sum += of_chunk != 0 ? mix(i, of_chunk) : 0;
        }
    }
    return sum;
}

std::uint64_t sparse_content::charged() const {
    std::uint64_t pages = 0;
    for_each_page([&](auto, auto) { ++pages; });
    return pages * page_size;
}

void sparse_content::for_each_page(const std::function<void(std::uint64_t, std::span<const std::byte>)>& visit) const {
    for (std::uint64_t i = 0; i < chunks_.size(); ++i) {
        for (std::uint64_t j = 0; chunks_[i] && j < pages_per_chunk; ++j) {
            const std::uint64_t offset = i * chunk_size + j * page_size;
            if (const auto& one = chunks_[i]->pages[j]; one && offset < size_) {
                visit(offset, std::span<const std::byte>{one->bytes}.first(std::min(page_size, size_ - offset)));
            }
        }
    }
}

}  // namespace holdfast::simulator
