"""Which overdue books keep other people waiting, and who should hear of it?

Run in the sandbox, this asks the library server some 200 questions at once, keeps the answers in Python
variables, and prints one page. A model that called the tools one by one would read every answer.

    build/cloister run --config examples/config.json examples/overdue.py
"""

import asyncio
import datetime
from collections import Counter, defaultdict

library = mcp_library  # each configured server is a variable mcp_<server>


async def members_of(branch):
    """All pages of a branch's members."""
    found, page = [], 1
    while page:
        answer = await library.list_members(branch_id=branch["id"], page=page)
        found += [{**member, "branch": branch["name"]} for member in answer["members"]]
        page = answer.get("next_page")
    return found


opening = await library.list_branches()
today = datetime.date.fromisoformat(opening["today"])
members = sum(await asyncio.gather(*map(members_of, opening["branches"])), [])
loans = await asyncio.gather(*(library.list_loans(member_id=m["id"]) for m in members))

overdue = defaultdict(list)  # book id -> [(days late, member)]
for member, answer in zip(members, loans):
    for loan in answer["loans"]:
        days = (today - datetime.date.fromisoformat(loan["due"])).days
        if days > 0:
            overdue[loan["book_id"]].append((days, member))

ids = sorted(overdue)
books = dict(zip(ids, await asyncio.gather(*(library.get_book(book_id=i) for i in ids))))
queues = dict(zip(ids, await asyncio.gather(*(library.waiting_list(book_id=i) for i in ids))))
waiting = {i: len(queues[i]["waiting"]) for i in ids}
longest = {i: max(days for days, _ in overdue[i]) for i in ids}

late = [(days, member) for holders in overdue.values() for days, member in holders]
print(f"On {today}, {len(late)} books are overdue at {len({m['id'] for _, m in late})} of {len(members)} members.")
print("By branch:", ", ".join(f"{name} {n}" for name, n in Counter(m["branch"] for _, m in late).most_common()))

print("\nBooks that people wait for while copies are overdue:\n")
print(f"  {'book':<44} {'waiting':>7}  {'overdue':<9} {'longest':>7}")
ranked = sorted(ids, key=lambda i: (-waiting[i], -longest[i]))
for i in [i for i in ranked if waiting[i]][:8]:
    title = f"{books[i]['title']} ({books[i]['author']})"
    title = title if len(title) <= 44 else title[:43] + "…"
    print(f"  {title:<44} {waiting[i]:>7}  {len(overdue[i])} of {books[i]['copies']:<4} {longest[i]:>5} d")

# One letter for each person, about all the books that others wait for.
letters = defaultdict(list)
for i in ids:
    for days, member in overdue[i]:
        if waiting[i] >= 3 and days >= 30:
            letters[member["id"], member["name"]].append(f"{books[i]['title']}, {days} days late, {waiting[i]} waiting")
sent = await asyncio.gather(
    *(library.send_reminder(member_id=who, text="Please bring back:\n" + "\n".join(lines))
      for (who, _), lines in letters.items())
)
print(f"\n{len(sent)} letters sent:\n")
for (_, name), lines in sorted(letters.items(), key=lambda item: item[0][1]):
    print(f"  {name:<18} {'; '.join(lines)}")
