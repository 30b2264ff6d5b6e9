{-# OPTIONS_GHC -fno-full-laziness #-}

-- |
-- Module      : Heddle.Pipe.Internal.Types
-- Description : Pipes as functions of their continuations
-- Stability   : internal
--
-- A pipe runs with three continuations: its own, that of its upstream ('Up') and that of its
-- downstream ('Down'). To await is to call the upstream with a 'Down'; to yield is to call the
-- downstream with an 'Up'. No call returns, so the cost does not depend on how stages or binds
-- nest. Each continuation is held only by the one that will use it, once.
--
-- Cost: a hop is two calls, and two closures of 3 or 4 words.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Types
  ( Pipe (..),
    Up (..),
    Down (..),
    Env (..),
    pipe,
    await,
    yield,
    (.|),
    (=>=),

    -- * Continuations of neighbours
    Track,
    newTrack,
    rest,
    passed,
    ended,
    residual,
    isWanted,
    found,
    noInput,

    -- * Runs
    runPipe,
    runInto,
    runList,
    runIn,
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Data.Void (Void, absurd)
import Heddle.Pipe.Internal.Scope
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception (bug, mask, throwIO, try)
import Heddle.Prim.Unsafe (expanded, oneShot, sameObject)

{- HLINT ignore "Avoid lambda" -}
-- The lambdas show GHC the functions' arity.

-- | Awaits @i@s, yields @o@s, does 'IO', and ends with an @r@.
newtype Pipe i o r = Pipe {unPipe :: Env i -> (r -> Up i -> Down o -> IO ()) -> Up i -> Down o -> IO ()}

-- | The continuation of a producer: what it does when asked for a value.
newtype Up i = Up {pull :: Down i -> IO ()}

-- | The continuation of a consumer: what it does with a value, or with 'Nothing' at the end.
newtype Down o = Down {push :: Maybe o -> Up o -> IO ()}

-- | What does not change while a stage runs: the track of its input, what it has open, and
-- the run.
data Env i = Env !(Track i) !Scope !Run

instance Functor (Pipe i o) where
  fmap f p = pipe (\env k u d -> unPipe p env (next (\a u' d' -> k (f a) u' d')) u d)
  {-# INLINE fmap #-}

instance Applicative (Pipe i o) where
  pure a = pipe (\_ k u d -> k a u d)
  {-# INLINE pure #-}
  pf <*> pa = pf >>= \f -> pa >>= \a -> pure (f a)
  {-# INLINE (<*>) #-}
  pa *> pb = pa >>= const pb
  {-# INLINE (*>) #-}

instance Monad (Pipe i o) where
  p >>= f = pipe (\env k u d -> unPipe p env (next (\a u' d' -> unPipe (f a) env k u' d')) u d)
  {-# INLINE (>>=) #-}

instance MonadIO (Pipe i o) where
  liftIO io = pipe (\_ k u d -> io >>= \a -> k a u d)
  {-# INLINE liftIO #-}

-- | A pipe from a function. Each of its partial applications is used once, and GHC is told so.
pipe :: (Env i -> (r -> Up i -> Down o -> IO ()) -> Up i -> Down o -> IO ()) -> Pipe i o r
pipe f = Pipe (oneShot (\env -> oneShot (\k -> oneShot (\u -> oneShot (\d -> expanded (f env k u d))))))
{-# INLINE pipe #-}

-- | The same for a continuation.
next :: (a -> Up i -> Down o -> IO ()) -> a -> Up i -> Down o -> IO ()
next f = oneShot (\a -> oneShot (\u -> oneShot (\d -> expanded (f a u d))))
{-# INLINE next #-}

-- | The next value from upstream; 'Nothing' at the end of the input.
--
-- [Cost]: a call; 32 bytes, with the continuation.
await :: Pipe i o (Maybe i)
await = pipe (\_ k u d -> pull u (Down (oneShot (\a -> oneShot (\u' -> expanded (k a u' d))))))
{-# INLINE await #-}

-- | Pass a value downstream, and go on when asked for the next.
--
-- [Cost]: a call; 48 bytes, with the continuation.
yield :: o -> Pipe i o ()
yield o = pipe (\env k u d -> push d (Just o) (rest env u (\d' -> k () u d')))
{-# INLINE yield #-}

infixl 2 .|

-- | The right pipe awaits what the left one yields. The right one runs first; the left one
-- runs when it is asked for a value, until it yields one. When the right one ends, the left
-- one is cancelled: what it has open is released before the composition goes on. Input that
-- the left one has not awaited is left for what follows the composition.
--
-- [Cost]: about 250 bytes at the start. A hop costs the same however compositions nest.
-- [Throws]: what either throws, and what releasing throws.
(.|) :: Pipe a b x -> Pipe b c y -> Pipe a c y
left .| right = Pipe $ \env@(Env track scope run) k u d -> do
  (inner, before) <- innerScope scope
  between <- newTrack
  let start = rest env u (\d' -> unPipe left (Env track inner run) (\_ u' -> ended env u') u d')
  unPipe right (Env between scope run) (done env k inner before) start d
  where
    done env@(Env _ scope _) k inner before y up d = do
      u <- residual env up
      leave scope before inner
      k y u d

infixl 1 =>=

-- | As '.|', but when the right one ends, the left one still runs to its end, and what it
-- yields is dropped. Returns both results. An infinite left one never ends.
--
-- [Cost]: as '.|'.
-- [Throws]: what either throws.
(=>=) :: Pipe a b x -> Pipe b c y -> Pipe a c (x, y)
left =>= right = Pipe $ \env@(Env track scope run) k u d -> do
  (inner, before) <- innerScope scope
  between <- newTrack
  result <- newRef Nothing
  let start = rest env u (\d' -> unPipe left (Env track inner run) (\x u' d'' -> writeRef result (Just (x, u')) >> ended env u' d'') u d')
      drain y d' up = pull up $
        Down $ \a up' -> case a of
          Just _ -> drain y d' up'
          Nothing -> do
            leave scope before inner
            readRef result >>= maybe (bug "a pipe ended without a result") (\(x, u') -> k (x, y) u' d')
  unPipe right (Env between scope run) (\y up d' -> drain y d' up) start d

-- Continuations of neighbours ------------------------------------------------

-- | Finds the rest of a stage's input; every channel has one of these. When a composition ends
-- while its left side waits with input left, the composition holds the continuation of that
-- left side, but what follows needs the input. It sets the track of its input to 'Wanted' and
-- passes 'wanted' up; the first stage that finds its own track set has the input. Only the end
-- of a composition costs this; a hop does not touch tracks.
type Track i = Ref (Residual i)

data Residual i = NotWanted | Wanted | Found (Up i)

-- | A track for a new channel.
newTrack :: IO (Track i)
newTrack = newRef NotWanted
{-# INLINE newTrack #-}

-- | The continuation of a stage with this input.
rest :: Env i -> Up i -> (Down o -> IO ()) -> Up o
rest env u f = Up (oneShot (\d -> expanded (if isWanted d then found env u else f d)))
{-# INLINE rest #-}

-- | Passed up instead of a consumer, to find the rest of the input.
wanted :: Down o
wanted = Down (\_ _ -> bug "what was wanted has been passed a value")
{-# NOINLINE wanted #-}

isWanted :: Down o -> Bool
isWanted (Down d) = case wanted of Down w -> sameObject d w
{-# INLINE isWanted #-}

-- | If this stage's input is wanted, hand it over; else look further up.
found :: Env i -> Up i -> IO ()
found (Env track _ _) u =
  readRef track >>= \case
    Wanted -> writeRef track (Found u)
    _ -> pull u wanted
{-# NOINLINE found #-}

-- | The rest of the input, found through the continuation of a stage that it flows to.
residual :: Env i -> Up o -> IO (Up i)
residual (Env track _ _) up = do
  writeRef track Wanted
  pull up wanted
  readRef track >>= \case
    Found u -> u <$ writeRef track NotWanted
    _ -> bug "a pipe has lost its input"

-- | Tell the consumer that this producer has ended.
ended :: Env i -> Up i -> Down o -> IO ()
ended env u d = push d Nothing (passed env u)

-- | The continuation of a producer that has ended.
passed :: Env i -> Up i -> Up o
passed env u = rest env u (ended env u)

-- | The continuation of an upstream without values.
noInput :: Up i
noInput = Up (\d -> if isWanted d then bug "a pipe has lost its input" else push d Nothing noInput)

-- Runs -----------------------------------------------------------------------

-- | Run a pipeline. When this returns or throws, everything that it opened has been released.
--
-- [Throws]: what a stage throws; 'StageFailed' if that stage has a name.
-- [Masking]: stages run as the caller does.
runPipe :: Pipe Void Void r -> IO r
runPipe = runInto absurd
{-# INLINE runPipe #-}

-- | Run a pipe, and call the function with each value that it yields, before it goes on.
--
-- [Throws]: as 'runPipe'; and what the function throws.
runInto :: (o -> IO ()) -> Pipe Void o r -> IO r
runInto write = runIn (Down sink)
  where
    sink o u = maybe (pure ()) (\a -> write a >> pull u (Down sink)) o
{-# INLINE runInto #-}

-- | Run a pipe; the values that it yields, and its result.
--
-- [Cost]: the list is built in memory, and returned when the pipe has ended.
runList :: Pipe Void o r -> IO ([o], r)
runList p = do
  list <- newRef []
  r <- runInto (\o -> readRef list >>= \os -> writeRef list (o : os)) p
  os <- readRef list
  pure (reverse os, r)

-- | Run to the end, without input, and with this consumer.
runIn :: Down o -> Pipe i o r -> IO r
runIn d p = do
  result <- newRef Nothing
  track <- newTrack
  scope <- newScope
  run <- newRun
  mask $ \restore -> do
    outcome <- try (restore (unPipe p (Env track scope run) (\r _ _ -> writeRef result (Just r)) noInput d))
    case outcome of
      Left e -> do
        stage <- stageNow run
        _ <- closeAll scope
        throwIO (failedIn stage e)
      Right () -> closed scope
  readRef result >>= maybe (bug "a pipeline ended without a result") pure
