"""Words that carry no information about the subject of a text, for some languages."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fokker.corpora._tokens import normalised

# Contractions without their apostrophe, as the rule "letters" leaves them, and their parts, as "unicode"
# does.
_ENGLISH = """
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
wouldnt shouldnt hasnt havent hadnt im youre hes shes theyre weve ive youve thats theres lets don doesn
didn isn aren wasn weren couldn won wouldn shouldn hasn haven hadn ain ll ve re
"""
_GERMAN = """
der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner keines und oder
aber denn doch sondern sowie sowohl weder noch als wie wenn weil da dass daß ob obwohl während bis seit
bevor nachdem damit indem falls sodass ich mich mir mein meine meinen meinem meiner meines du dich dir dein
deine deinen deinem deiner deines er ihn ihm sein seine seinen seinem seiner seines sie ihr ihre ihren ihrem
ihrer ihres ihnen es wir uns unser unsere unseren unserem unserer unseres euch euer eure euren eurem eurer
man sich wer wen wem wessen was welche welcher welches welchen welchem dies diese dieser dieses diesen
diesem jene jener jenes jenen jenem jede jeder jedes jeden jedem alle aller alles allen allem manche mancher
manches manchen viel viele vieler vielen wenig wenige mehr meist einige einigen einiger etwas nichts nicht
nie niemals immer oft wieder schon noch nur auch sehr so zu zum zur im in ins am an ans auf aus außer bei
beim durch für gegen hinter mit nach neben ohne über um unter von vom vor zwischen wegen trotz statt hier
dort da hin her wo woher wohin wann warum wieso weshalb dann nun jetzt bin bist ist sind seid war warst
waren wart gewesen sein wird wirst werden werdet wurde wurden worden geworden habe hast hat haben habt hatte
hatten gehabt kann kannst können konnte konnten muss müssen musste mussten soll sollen sollte sollten will
wollen wollte wollten darf dürfen durfte mag mögen möchte würde würden wäre wären hätte hätten könnte
könnten etwa also zwar jedoch dabei dadurch dafür dagegen daher dahin damals danach daran darauf daraus
darin darüber darum davon davor dazu beide beiden selbst sogar ganz eben gar bereits andere anderen anderer
anderes anderem einmal
"""
_FRENCH = """
le la les un une des du de au aux ce cet cette ces ça cela ceci et ou mais donc or ni car si comme que quand
lorsque puisque quoique je me moi mon ma mes mien mienne tu te toi ton ta tes il elle on se soi son sa ses
lui nous notre nos vous votre vos ils elles eux leur leurs en y qui quoi dont où lequel laquelle lesquels
lesquelles auquel auxquels duquel desquels quel quelle quels quelles quelque quelques chaque tout toute tous
toutes aucun aucune autre autres même mêmes tel telle tels telles plusieurs peu beaucoup plus moins très
trop assez aussi encore toujours jamais souvent déjà bien mal ici là alors ainsi puis ensuite enfin ne pas
point rien personne non oui à dans par pour sur sous avec sans vers chez entre contre depuis pendant avant
après dès jusque jusqu devant derrière hors selon malgré parmi lors est es suis sommes êtes sont été être
étant était étais étaient étions fut furent sera seront serait seraient soit soient ai as a avons avez ont eu
avoir ayant avait avais avaient eut aura auront aurait auraient ait aient fait faire font faisait peut
peuvent pouvait pouvoir doit doivent devait devoir va vont aller allait faut fallait veut veulent cependant
toutefois pourtant parce afin tandis celui celle ceux celles ci voici voilà lorsqu puisqu quoiqu quelqu qu
aujourd hui presque environ surtout plutôt seulement tant autant dit
"""
_RUSSIAN = """
и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее её мне было вот от
меня еще ещё нет о об обо из изо ему теперь когда даже ну вдруг ли если уже или ни быть был была были него до
вас нибудь опять уж вам ведь там потом себя себе собой ничего ей может они тут где есть надо ней для мы тебя
тебе их чем сам сама само сами без будто чего раз тоже под будет будут буду ж кто этот эта это эти этого
этой этому этом этих этим того той тому том тех тем потому какой какая какое какие каких какого ним них
здесь один одна одно одни одного одной почти мой моя мое моё мои моего моей моих твой твоя твои тот та те
чтобы нее неё сейчас куда зачем всех всем всеми всей всего всегда никогда можно при наконец два об другой
другая другое другие других хоть после над больше через нас нам нами про много разве эту впрочем хорошо свой
своя свое своё свои своего своей своих своим свою перед иногда лучше чуть нельзя такой такая такое такие
таких такого им более конечно всю между который которая которое которые которых которого которой которому
которым которыми котором наш наша наше наши нашего нашей ваш ваша ваше ваши весь вся мог могла могут могу
поэтому также лишь пока однако ещё кроме около вместо чтоб либо очень весьма именно просто тогда сюда туда
откуда отсюда оттуда почему кого кому кем ком чему чём
"""
_SPANISH = """
el la los las un una unos unas lo al del de a ante bajo con contra desde en entre hacia hasta para por según
sin sobre tras y e o u ni que pero mas sino si porque pues aunque como cuando donde mientras cual cuales
quien quienes cuyo cuya cuyos cuyas yo me mí mi mis mío mía tú te ti tu tus usted ustedes él ella ello ellos
ellas le les se sí su sus suyo suya nosotros nosotras nos nuestro nuestra nuestros nuestras vosotros os
vuestro vuestra este esta esto estos estas ese esa eso esos esas aquel aquella aquello aquellos aquellas
mismo misma mismos mismas otro otra otros otras cada todo toda todos todas algún alguno alguna algunos
algunas ningún ninguno ninguna algo nada nadie mucho mucha muchos muchas poco poca pocos pocas más menos muy
tan tanto tanta tantos tantas también tampoco ya aún todavía siempre nunca jamás aquí allí ahí ahora antes
después luego entonces así no qué quién cómo cuándo dónde cuál soy eres es somos son era eras eran éramos fue
fui fueron ser siendo sido será serán sería serían sea sean estoy está estás están estaba estaban estar
estado estuvo he ha has han hemos había habían haber habido hay hubo haya hace hacer hacen hizo hecho puede
pueden podía poder debe deben tiene tienen tenía tener tuvo va van ir solo sólo bien durante casi además
"""
_ITALIAN = """
il lo la i gli le l un uno una di a da in con su per tra fra del dello della dei degli delle dell al allo
alla ai agli alle all dal dallo dalla dai dagli dalle dall nel nello nella nei negli nelle nell sul sullo
sulla sui sugli sulle sull e ed o od ma se che perché poiché mentre quando come dove anche né non più meno
molto molta molti molte poco poca pochi poche tanto tanta tanti tante tutto tutta tutti tutte altro altra
altri altre stesso stessa stessi stesse ogni alcuni alcune qualche nessuno nessuna niente nulla io me mi mio
mia miei mie tu te ti tuo tua tuoi tue lui lei egli ella esso essa essi esse gli si sé suo sua suoi sue noi
ci nostro nostra nostri nostre voi vi vostro vostra vostri vostre loro li ne chi cui quale quali quanto
quanta quanti quante questo questa questi queste quello quella quelli quelle quel quei quegli ciò qui qua lì
là ora poi prima dopo già ancora sempre mai così quindi allora dunque però invece oppure cioè sono sei è
siamo siete era ero eri erano eravamo fu furono essere stato stata stati state sarà saranno sarebbe sia
siano ho hai ha abbiamo avete hanno avevo aveva avevano avere avuto ebbe avrà abbia fa fanno fare fatto può
possono poteva deve devono doveva solo soltanto proprio senza sotto sopra contro durante circa verso
"""
_PORTUGUESE = """
o a os as um uma uns umas de do da dos das em no na nos nas ao aos à às por pelo pela pelos pelas para com
sem sob sobre entre até desde após ante contra e ou mas nem se que porque pois embora como quando onde
enquanto qual quais quem cujo cuja cujos cujas eu me mim meu minha meus minhas tu te ti teu tua teus tuas
ele ela eles elas lhe lhes si seu sua seus suas você vocês nós nosso nossa nossos nossas vós este esta isto
estes estas esse essa isso esses essas aquele aquela aquilo aqueles aquelas deste desta disto neste nesta
nisto desse dessa disso nesse nessa nisso dele dela deles delas mesmo mesma mesmos mesmas outro outra outros
outras cada todo toda todos todas algum alguma alguns algumas nenhum nenhuma algo nada ninguém muito muita
muitos muitas pouco pouca poucos poucas mais menos tão tanto tanta tantos tantas também já ainda sempre nunca
jamais aqui ali lá agora antes depois então assim não sim sou é és somos são era eras eram foi fui foram ser
sendo sido será serão seria seriam seja sejam estou está estão estava estavam estar esteve tenho tem têm
tinha tinham ter tido teve há havia haver houve faz fazer fez feito pode podem podia poder deve devem vai vão
ir só bem durante quase além
"""
_DUTCH = """
de het een en of maar want dus noch als dan dat die deze dit daar hier waar wie wat welke welk wanneer hoe
waarom ik me mij mijn je jij jou jouw u uw hij hem zijn zij ze haar het wij we ons onze jullie hun hen men
zich zelf er te ten ter in op aan bij met na naar om onder over per sinds tegen tot tussen uit van via voor
voorbij zonder door tijdens volgens binnen buiten boven achter naast langs rond omdat hoewel terwijl zodat
voordat nadat indien tenzij ben bent is was waren geweest wezen word wordt worden werd werden geworden heb
hebt heeft hebben had hadden gehad kan kunt kunnen kon konden moet moeten moest moesten zal zult zullen zou
zouden wil wilt willen wilde mag mogen mocht ga gaat gaan ging doe doet doen deed gedaan niet geen nooit
altijd vaak weer nog al reeds ook zeer erg heel veel vele meer meest weinig minder alle alles ieder iedere
iedereen elk elke sommige enkele iets niets iemand niemand ander andere anderen zo zulke nu toen toch wel
slechts alleen even bijna zelfs echter daarom daarna hierdoor waarbij waardoor ervan erop
"""

STOP_WORDS: Mapping[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "russian": frozenset(_RUSSIAN.split()),
    "spanish": frozenset(_SPANISH.split()),
    "italian": frozenset(_ITALIAN.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "dutch": frozenset(_DUTCH.split()),
}
_CODES = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "es": "spanish",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
}
# Text in one of these languages has a stop word of it in more than a quarter of its words.
_MIN_SHARE = 0.1


def stop_words(choice: str | os.PathLike[str] | Iterable[str]) -> frozenset[str] | None:
    """The stop words of a language, of a file with one per line, or as given; None for "auto".

    A language is a name in `STOP_WORDS` or its code (de, fr, ru, …); "none" is no words. Everything after a #
    in a file is a comment.
    """
    if not isinstance(choice, str | os.PathLike):
        return frozenset(choice)
    name = os.fspath(choice)
    language = _CODES.get(name.lower(), name.lower())
    if language == "auto":
        return None
    if language == "none":
        return frozenset()
    if language in STOP_WORDS:
        return STOP_WORDS[language]
    if not Path(name).is_file():
        raise ValueError(
            f"stop words: {name!r} is neither a file nor one of {', '.join(STOP_WORDS)}, auto and none. For "
            "another language, give a file with one word per line."
        )
    try:
        lines = Path(name).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"the stop words {name} are not UTF-8 text: {error}.") from None
    return frozenset(word for line in lines for word in normalised(line.partition("#")[0]).split())


def detected_language(occurrences: Mapping[str, int], total: int) -> str | None:
    """The language whose stop words are the most among the words of a text; None if they are few.

    `occurrences`: how often each word occurs. `total`: the number of words.
    """
    shares = {
        language: sum(occurrences.get(word, 0) for word in words) / max(total, 1)
        for language, words in STOP_WORDS.items()
    }
    language = max(shares, key=lambda name: shares[name])
    return language if shares[language] >= _MIN_SHARE else None
