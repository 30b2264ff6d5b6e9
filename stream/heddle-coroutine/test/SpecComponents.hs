-- | The components of the article, over its coroutines, in the most obvious way: each
-- remembers all that it was told, and decides by looking at all of that. To compare with.
module SpecComponents
  ( -- * On lists
    Said,
    Sections,
    sections,
    complement,
    pointwise,
    linesOf,
    occurrencesOf,

    -- * On streams
    Splitter,
    Join,
    ifThenElse,
    groupBy,
    not,
    and,
    or,
    any,
    all,
    line,
    substring,
    joinTransduced,
    flipJoin,
    append,
    interleave,
    combine,
    zipMonoids,
    concatenate,
    suppress,
  )
where

import Control.Monad.Trans.Class (lift)
import Data.List (isPrefixOf)
import Heddle.Coroutine (EitherFunctor (..), Part (..))
import Heddle.Coroutine.Article hiding (interleave)
import Heddle.Coroutine.Components (Outcome (..))
import Prelude hiding (all, and, any, not, or)
import Prelude qualified

-- Lists ----------------------------------------------------------------------

-- | A side, the left one being 'True', and an item or an edge.
type Said a = (Bool, Maybe a)

-- | The sides of sections, and what is in them.
type Sections a = [(Bool, [a])]

sections :: [Said a] -> Sections a
sections = reverse . foldl add []
  where
    add ss (side, Nothing) = (side, []) : ss
    add ((side', as) : ss) (side, Just a) | side' == side = (side, as ++ [a]) : ss
    add ss (side, Just a) = (side, [a]) : ss

complement :: Sections a -> Sections a
complement ss = [(Prelude.not side, as) | (side, as) <- ss]

-- | The empty sections before each item and at the end; whether a section begins with the
-- item, its side, the item.
type Place a = ([Bool], Maybe (Bool, Bool, a))

places :: Sections a -> [Place a]
places ss = case span (null . snd) ss of
  (gaps, []) -> [(map fst gaps, Nothing)]
  (gaps, (side, as) : rest) -> zip (map fst gaps : repeat []) [Just (begins, side, a) | (begins, a) <- zip (True : repeat False) as] ++ places rest

saidAt :: Place a -> [Said a]
saidAt (gaps, what) = [(side, Nothing) | side <- gaps] ++ maybe [] (\(begins, side, a) -> [(side, Nothing) | begins] ++ [(side, Just a)]) what

bothPlaces :: (Bool -> Bool -> Bool) -> Sections a -> Sections a -> [Place a]
bothPlaces op ss1 ss2 = [(zipWith op gaps1 gaps2, agreed what1 what2) | ((gaps1, what1), (gaps2, what2)) <- zip (places ss1) (places ss2), null what1 == null what2]
  where
    agreed (Just (begins1, side1, a)) (Just (begins2, side2, _)) = Just (begins1 || begins2, op side1 side2, a)
    agreed _ _ = Nothing

pointwise :: (Bool -> Bool -> Bool) -> Sections a -> Sections a -> Sections a
pointwise op ss1 ss2 = sections (concatMap saidAt (bothPlaces op ss1 ss2))

linesOf :: String -> Sections Char
linesOf "" = []
linesOf text = case break (== '\n') text of
  (one, _ : rest) -> (True, one) : (False, "\n") : linesOf rest
  (one, "") -> [(True, one)]

occurrencesOf :: Eq a => [a] -> [a] -> Sections a
occurrencesOf wanted = sections . go
  where
    go [] = [(True, Nothing) | null wanted]
    go as@(a : rest)
      | null wanted = (True, Nothing) : (False, Just a) : go rest
      | wanted `isPrefixOf` as = (True, Nothing) : map (\b -> (True, Just b)) (take n as) ++ go (drop n as)
      | otherwise = (False, Just a) : go rest
    n = length wanted

-- Listing 14 -----------------------------------------------------------------

type Splitter a = Coroutine (EitherFunctor ((->) (Maybe a)) (EitherFunctor (Part a) (Part a)))

type Join a = Coroutine (EitherFunctor (EitherFunctor ((->) (Maybe a)) ((->) (Maybe a))) ((,) a))

awaitS :: Monad m => Splitter a m (Maybe a)
awaitS = suspend (LeftF return)

say :: Monad m => Said a -> Splitter a m ()
say (left, what) = suspend (RightF (if left then LeftF part else RightF part))
  where
    part = maybe Edge Item what (return ())

awaitLeft, awaitRight :: Monad m => Join a m (Maybe a)
awaitLeft = suspend (LeftF (LeftF return))
awaitRight = suspend (LeftF (RightF return))

yieldJ :: Monad m => a -> Join a m ()
yieldJ a = suspend (RightF (a, return ()))

-- | What has a splitter come to?
data Step a m x = Ended x | Awaits (Maybe a -> Splitter a m x) | Says (Said a) (Splitter a m x)

step :: Monad m => Splitter a m x -> m (Step a m x)
step s = either suspended Ended <$> resume s
  where
    suspended (LeftF f) = Awaits f
    suspended (RightF (LeftF part)) = said True part
    suspended (RightF (RightF part)) = said False part
    said left (Item a c) = Says (left, Just a) c
    said left (Edge c) = Says (left, Nothing) c

-- Branches -------------------------------------------------------------------

-- | In the way of Listing 12: every round resumes all three that can go on.
ifThenElse :: Monad m => Splitter a m x -> Transducer a b m y -> Transducer a b m z -> Transducer a b m (x, y, z)
ifThenElse s t e = Coroutine (do s' <- step s; t' <- resume t; e' <- resume e; proceed s' t' e')
  where
    proceed s' (Left (RightF (b, c))) e' = return (Left (RightF (b, ifThenElse (unstep s') c (done e'))))
    proceed s' t' (Left (RightF (b, c))) = return (Left (RightF (b, ifThenElse (unstep s') (done t') c)))
    proceed (Awaits f) t' e' = return (Left (LeftF (\a -> ifThenElse (f a) (done t') (done e'))))
    proceed (Says (True, Just a) c) (Left (LeftF f)) e' = resume (ifThenElse c (f (Just a)) (done e'))
    proceed (Says (False, Just a) c) t' (Left (LeftF f)) = resume (ifThenElse c (done t') (f (Just a)))
    proceed (Says _ c) t' e' = resume (ifThenElse c (done t') (done e'))
    proceed (Ended x) (Left (LeftF f)) e' = resume (ifThenElse (return x) (f Nothing) (done e'))
    proceed (Ended x) t' (Left (LeftF f)) = resume (ifThenElse (return x) (done t') (f Nothing))
    proceed (Ended x) (Right y) (Right z) = return (Right (x, y, z))
    done c = Coroutine (return c)
    unstep (Ended x) = return x
    unstep (Awaits f) = suspend (LeftF f)
    unstep (Says said c) = say said >> c

groupBy :: Monad m => Splitter a m x -> Transducer a [a] m x
groupBy = go [] 0
  where
    go said n s =
      lift (step s) >>= \case
        Ended x -> mapM_ yieldT (drop n (lefts (sections said))) >> return x
        Awaits f -> awaitT >>= go said n . f
        Says it c -> do
          let said' = said ++ [it]
              closed = lefts (init (sections said'))
          mapM_ yieldT (drop n closed)
          go said' (length closed) c
    lefts ss = [as | (True, as) <- ss]

-- Logic ----------------------------------------------------------------------

not :: Monad m => Splitter a m x -> Splitter a m x
not s =
  lift (step s) >>= \case
    Ended x -> return x
    Awaits f -> awaitS >>= not . f
    Says (left, what) c -> say (Prelude.not left, what) >> not c

and, or :: Monad m => Splitter a m x -> Splitter a m x -> Splitter a m x
and = both (&&)
or = both (||)

both :: Monad m => (Bool -> Bool -> Bool) -> Splitter a m x -> Splitter a m x -> Splitter a m x
both op = go 0 [] []
  where
    go n before1 before2 s1 s2 = do
      (said1, s1') <- lift (untilItAwaits before1 s1)
      (said2, s2') <- lift (untilItAwaits before2 s2)
      let known = bothPlaces op (sections said1) (sections said2)
          items = [place | place@(_, Just _) <- known]
          rest = [place | place@(_, Nothing) <- known]
      mapM_ say (concatMap saidAt (drop n items))
      case (s1', s2') of
        (Ended x, Ended _) -> mapM_ say (concatMap saidAt rest) >> return x
        _ -> awaitS >>= \a -> go (length items) said1 said2 (tell a s1') (tell a s2')
    tell a (Awaits f) = f a
    tell _ (Says it c) = say it >> c
    tell _ (Ended x) = return x

untilItAwaits :: Monad m => [Said a] -> Splitter a m x -> m ([Said a], Step a m x)
untilItAwaits said s =
  step s >>= \case
    Says it c -> untilItAwaits (said ++ [it]) c
    other -> return (said, other)

any, all :: Monad m => Splitter a m x -> Splitter [a] m x
any = judging Prelude.or
all = judging Prelude.and

judging :: Monad m => ([Bool] -> Bool) -> Splitter a m x -> Splitter [a] m x
judging judge s = go Nothing
  where
    go result =
      awaitS
        >>= maybe
          (maybe (fst <$> lift (over [] [] s)) return result)
          (\as -> lift (over as [] s) >>= \(x, said) -> say (judge (map fst (sections said)), Just as) >> go (Just x))
    over as said s' =
      step s' >>= \case
        Ended x -> return (x, said)
        Awaits f -> over (drop 1 as) said (f (if null as then Nothing else Just (head as)))
        Says it c -> over as (said ++ [it]) c

-- Conditions -----------------------------------------------------------------

line :: Monad m => Splitter Char m ()
line = go True
  where
    go begins = awaitS >>= maybe (return ()) (\c -> mapM_ say [(True, Nothing) | begins] >> say (c /= '\n', Just c) >> go (c == '\n'))

substring :: (Eq a, Monad m) => [a] -> Splitter a m ()
substring [] = say (True, Nothing) >> awaitS >>= maybe (return ()) (\a -> say (False, Just a) >> substring [])
substring wanted = go []
  where
    go held = awaitS >>= maybe (mapM_ (\a -> say (False, Just a)) held) (\a -> decide (held ++ [a]))
    decide held
      | held == wanted = say (True, Nothing) >> mapM_ (\a -> say (True, Just a)) held >> go []
      | held `isPrefixOf` wanted = go held
      | otherwise = say (False, Just (head held)) >> decide (tail held)

-- Joins ----------------------------------------------------------------------

joinTransduced :: Monad m => Transducer a b m x -> Transducer a b m y -> Join b m z -> Transducer a b m (Outcome x, Outcome y, z)
joinTransduced begun1 begun2 = go [] (0, Right begun1) (0, Right begun2)
  where
    go had side1 side2 j =
      lift (resume j) >>= \case
        Right z -> return (outcome side1, outcome side2, z)
        Left (RightF (b, c)) -> yieldT b >> go had side1 side2 c
        Left (LeftF (LeftF f)) -> ask had side1 >>= \(b, had', side1') -> go had' side1' side2 (f b)
        Left (LeftF (RightF f)) -> ask had side2 >>= \(b, had', side2') -> go had' side1 side2' (f b)
    outcome = either Returned (const Stopped) . snd
    -- With all that was ever awaited, and how much of that the side has had.
    ask had (n, Left x) = return (Nothing, had, (n, Left x))
    ask had (n, Right t) =
      lift (resume t) >>= \case
        Right x -> return (Nothing, had, (n, Left x))
        Left (RightF (b, c)) -> return (Just b, had, (n, Right c))
        Left (LeftF f)
          | n < length had -> ask had (n + 1, Right (f (had !! n)))
          | Nothing : _ <- reverse had -> ask had (n, Right (f Nothing))
          | otherwise -> awaitT >>= \a -> ask (had ++ [a]) (n + 1 :: Int, Right (f a))

flipJoin :: Monad m => Join a m x -> Join a m x
flipJoin j =
  lift (resume j) >>= \case
    Right x -> return x
    Left (LeftF (LeftF f)) -> awaitRight >>= flipJoin . f
    Left (LeftF (RightF f)) -> awaitLeft >>= flipJoin . f
    Left (RightF (a, c)) -> yieldJ a >> flipJoin c

append, interleave :: Monad m => Join a m ()
append = while awaitLeft >> while awaitRight
interleave = inTurn awaitLeft awaitRight

inTurn :: Monad m => Join a m (Maybe a) -> Join a m (Maybe a) -> Join a m ()
inTurn this other = this >>= maybe (while other) (\a -> yieldJ a >> inTurn other this)

while :: Monad m => Join a m (Maybe a) -> Join a m ()
while side = side >>= maybe (return ()) (\a -> yieldJ a >> while side)

combine :: Monad m => (a -> a -> a) -> Join a m ()
combine f = awaitLeft >>= maybe (return ()) (\a -> awaitRight >>= maybe (return ()) (\b -> yieldJ (f a b) >> combine f))

zipMonoids :: (Monad m, Monoid a) => Join a m ()
zipMonoids = combine mappend

-- Others ---------------------------------------------------------------------

concatenate :: Monad m => Transducer [a] a m ()
concatenate = liftStateless id

suppress :: Monad m => Iteratee (Maybe a) m ()
suppress = await >>= maybe (return ()) (const suppress)
