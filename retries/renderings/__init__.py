"""What the older systems wrote into files, rendered from the facts.

One pure module a format; `facts` reads what they tell, `documents` joins the two.
"""
