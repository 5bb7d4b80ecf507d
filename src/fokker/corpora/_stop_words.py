"""English words that carry no information about the subject of a text."""

# Written without apostrophes, as the tokeniser leaves them.
_WORDS = """
a an the this that these those such same other another each every either neither both all any some none
no not nor and or but if then else so than as because since while although though whether until unless
however therefore thus of to in on at by for from with without within into onto upon over under above
below between among through during before after against about around across along near off out up down
away back per via i me my mine myself you your yours yourself he him his himself she her hers herself it
its itself we us our ours ourselves they them their theirs themselves one ones who whom whose which what
when where why how here there am is are was were be been being do does did done doing have has had
having can cannot could may might must shall should will would let get got also only just even still yet
very too much many more most less least few several own again ever never always often now already almost
rather quite perhaps well else instead dont doesnt didnt isnt arent wasnt werent cant couldnt wont
wouldnt shouldnt hasnt havent hadnt im youre hes shes theyre weve ive youve thats theres lets
"""
ENGLISH_STOP_WORDS: frozenset[str] = frozenset(_WORDS.split())
