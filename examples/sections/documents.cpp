// Orders and what they add up to, in one JSON document of the library cJSON (Debian: libcjson-dev), whose code is as
// Debian ships it. Its hook for an allocator is all that is used to keep its trees of nodes in another memory.
#include <cmath>
#include <new>
#include <string>

#include <cjson/cJSON.h>

#include "sections/program.hpp"

namespace sections {

namespace {

constexpr std::uint64_t all_sections = 400;
constexpr std::uint64_t customers = 24;

struct shop {
    cJSON* document = nullptr;
    std::uint64_t sections = 0;
};

/// The library has one allocator for the process: this one's while the object exists, else malloc. Objects of several
/// threads take turns.
class hooked {
public:
    explicit hooked(memory& blocks) {
        current() = &blocks;
        // An exception must not pass through the library's code, which is C: no block is its sign that memory is short.
        cJSON_Hooks hooks{[](std::size_t bytes) -> void* {
                              try {
                                  return current()->allocate(bytes);
                              } catch (const std::bad_alloc&) {
                                  return nullptr;
                              }
                          },
                          [](void* block) {
                              if (block != nullptr) {
                                  current()->release(block);
                              }
                          }};
        cJSON_InitHooks(&hooks);
    }
    hooked(const hooked&) = delete;
    hooked& operator=(const hooked&) = delete;
    ~hooked() { cJSON_InitHooks(nullptr); }

private:
    static memory*& current() {
        static memory* blocks = nullptr;
        return blocks;
    }
};

cJSON* require(cJSON* made) {
    if (made == nullptr) {
        throw std::bad_alloc();
    }
    return made;
}

double amount_of(const cJSON* order) { return cJSON_GetNumberValue(cJSON_GetObjectItem(order, "amount")); }

std::uint64_t blocks_of(const cJSON* from) {
    std::uint64_t found = 0;
    for (const cJSON* each = from; each != nullptr; each = each->next) {
        found += 1U + (each->string != nullptr ? 1U : 0U) + (each->valuestring != nullptr ? 1U : 0U);
        found += blocks_of(each->child);
    }
    return found;
}

class documents final : public program {
public:
    documents(memory& blocks, void* state) : blocks_(blocks), own_(*static_cast<shop*>(state)) {}

    bool advance() override {
        if (own_.sections == all_sections) {
            return false;
        }
        const hooked library(blocks_);
        if (own_.document == nullptr) {
            own_.document = require(cJSON_Parse(R"({"total": 0, "orders": {}})"));
        }
        const std::uint64_t drawn = mix(own_.sections);
        const std::string customer = "customer " + std::to_string(drawn % customers);
        cJSON* const orders = cJSON_GetObjectItem(own_.document, "orders");
        const cJSON* const before = cJSON_GetObjectItem(orders, customer.c_str());
        double change = before == nullptr ? 0 : -amount_of(before);
        if (before != nullptr && drawn % 3 == 0) {
            cJSON_DeleteItemFromObject(orders, customer.c_str());
        } else {
            cJSON* const order = require(cJSON_Parse(order_text(drawn).c_str()));
            change += amount_of(order);
            if (before == nullptr) {
                cJSON_AddItemToObject(orders, customer.c_str(), order);
            } else {
                cJSON_ReplaceItemInObject(orders, customer.c_str(), order);
            }
        }
        cJSON* const total = cJSON_GetObjectItem(own_.document, "total");
        cJSON_SetNumberHelper(total, total->valuedouble + change);
        ++own_.sections;
        return true;
    }
    std::uint64_t sections() const override { return own_.sections; }
    std::string problem() const override {
        if (own_.document == nullptr) {
            return {};
        }
        double sum = 0;
        const cJSON* order = nullptr;
        const cJSON* last = nullptr;
        const cJSON* const orders = cJSON_GetObjectItem(own_.document, "orders");
        cJSON_ArrayForEach(order, orders) {
            if (last != nullptr && order->prev != last) {
                return "an order does not know the one before it";
            }
            last = order;
            sum += amount_of(order);
        }
        const double total = cJSON_GetNumberValue(cJSON_GetObjectItem(own_.document, "total"));
        return sum == total ? std::string() : "the total is not that of all orders";
    }
    std::uint64_t digest() const override {
        std::uint64_t all = mix(own_.sections);
        for (const char letter : text()) {
            all = mix(all + static_cast<unsigned char>(letter));
        }
        return all;
    }
    std::uint64_t blocks() const override { return 1 + blocks_of(own_.document); }
    std::string answer() const override { return text(); }

private:
    /// Amounts are whole numbers, so that sums are exact.
    static std::string order_text(std::uint64_t drawn) {
        std::string text = R"({"amount": )" + std::to_string(drawn >> 8U & 1023U) + R"(, "lines": [)";
        for (std::uint64_t i = 0; i <= (drawn >> 20U) % 5; ++i) {
            text +=
                (i == 0 ? "" : ", ") + (R"({"article": ")" + std::string(drawn >> (24 + 6 * i) & 63U, 'a')) + R"("})";
        }
        return text + "]}";
    }
    /// By malloc, for it is not the shop's.
    [[nodiscard]] std::string text() const {
        char* const printed = own_.document == nullptr ? nullptr : cJSON_PrintUnformatted(own_.document);
        std::string text = printed == nullptr ? "" : printed;
        cJSON_free(printed);
        return text;
    }

    memory& blocks_;
    shop& own_;
};

}  // namespace

const std::size_t documents_bytes = sizeof(shop);

std::unique_ptr<program> open_documents(memory& blocks, void* state) {
    return std::make_unique<documents>(blocks, state);
}

}  // namespace sections
