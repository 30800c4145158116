"""Words that only hold sentences together, of the languages met most: the commonest with four letters and more.

The short ones are there for texts in capitals, where a short word may also be an abbreviation.
"""

from __future__ import annotations

_LISTED = """
and any are but can for has its may nor not off one our out per the two via was who you
about above after again against also although always among another anyone anything because been before being below between both
cannot could does doing done down during each either else enough even ever every everyone everything first from further have having
here hers herself himself however into itself just least less like made make many might more most much must myself need neither
never next only other others otherwise ours over same second shall should since some someone something still such than that their
theirs them themselves then there therefore these they thing this those three through thus together toward under unless until upon
used using very want well were what when where whether which while whom whose will with within without would your yours yourself
don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't haven't hasn't it's that's there's they're
aber alle allem allen aller alles also andere anderen auch ausser beim bereits bevor dabei dadurch dafür daher damit dann dass
davon dazu dein deine denen denn deren dessen diese diesem diesen dieser dieses doch dort durch eine einem einen einer eines einige
etwas euch euer eure falls ganz gegen habe haben hatte hatten hier hinter ihre ihrem ihren ihrer immer indem jede jedem jeden jeder
jedes jedoch jetzt kann kein keine keinem keinen keiner können könnte mehr mein meine muss müssen nach nicht nichts noch nur oder
ohne schon sehr sein seine seinem seinen seiner seit sich sind soll sollen sollte sondern sonst über unser unsere unter viel vom
wann warum weil weiter welche welchem welchen welcher welches wenn werden wieder wird wurde wurden zwischen zwar
ainsi alors après assez aucun aucune aussi autre autres avant avec avoir beaucoup bien cela celle celles celui cependant certains
cette ceux chaque chez comme comment dans depuis donc dont durant elle elles encore entre était étaient être fait faire leur leurs
lors mais même mêmes moins notre nous parce pendant peut plus plusieurs pour pourquoi quand quel quelle quelles quels quelque sans
sera seront seulement sinon soit sont sous suivant sur tandis tels tous tout toute toutes très trop vers voici votre vous
algo alguna algunas alguno algunos ante antes aquel aquella aunque cada como contra cual cuales cuando cuanto desde donde durante
ella ellas ellos entonces entre eran esas esos esta estaba están estar estas este esto estos fueron había hacia hasta incluso luego
menos mientras mismo mucho muchos nada nosotros otra otras otro otros para pero poco porque puede pueden pues quien quienes según
sido siempre sino sobre solo también tanto tiene tienen toda todas todavía todo todos tras unas unos usted ustedes vosotros
alcune alcuni allora anche ancora avere avete aveva bensì che ciascuno come così cui dagli dalla dalle dallo degli della delle dello
dentro dopo dove dunque essere fino fosse hanno infatti loro meno mentre molto negli nella nelle nello nessuno noi nostro ogni oltre
ovvero però perché poi prima proprio quale quali quando quanto quella quelle quelli quello questa queste questi questo quindi
senza sono sopra sotto stata stato stesso sugli sulla sulle sullo suoi tale tali tanto troppo tutta tutte tutti tutto verso voi
ainda algum alguns aquele assim através até com dele deles depois desde desta deste disse ela eles então entre essa esse estão
fazer foi foram isso isto já mais mas mesmo muito não nas nem nos nossa onde outra outro para pela pelas pelo pelos pode porém
porque qual quando quem seja sejam sem será seus sobre sua suas também tem têm tudo uma você
aangezien alle alleen altijd andere been bent bij daar daarom deze door echter eens enkele geen haar heeft hebben hier hoe hun
iedere indien kunnen maar meer moet moeten naar niet nog omdat onder ons onze ook over reeds toch toen tussen vaak veel voor waar
waarom wanneer want waren welke werd wordt worden zeer zijn zich zonder zoals zullen
более быть вообще всего всех если есть ещё еще когда которая которого которой которые который между меня можно может
надо нужно однако после потом потому почти при свои своих себя также такой тогда того тоже только хотя чего через чтобы этого этой
этом этот эти были было была
"""

STOP_WORDS = frozenset(_LISTED.split())
