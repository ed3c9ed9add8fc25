"""What to buy: demand, portfolio, spot, deadlines, break-even.

Never here: what another room is for.
"""
