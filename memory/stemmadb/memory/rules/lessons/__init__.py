"""Lessons: the memories of the JSON interface, which are written once and gain or lose truth and utility.

`schemas` has the schemas of the three requests. `gates` checks a request: first its shape, then its sense. `requests`
are requests that passed. `adjusting` moves truth and utility. `reading` ranks, and shares the places of an answer.
Imports the rules and libraries.
"""
