{-# LANGUAGE GeneralizedNewtypeDeriving #-}
-- As in the parallel library: 'Eval' has no effects but sparks.
{-# LANGUAGE Trustworthy #-}

-- |
-- Module      : Heddle.Par.Strategies
-- Description : The interface of the parallel library
-- Stability   : stable
--
-- Evaluate parts of a lazy value in parallel with its consumer: the names, types and meaning of
-- @Control.Parallel.Strategies@. A value that 'rpar' sparks is evaluated by an idle capability,
-- or by the first thread that needs it; if it throws, every thread that needs it gets the
-- exception.
--
-- Sparks are GHC's own, not tasks of the pool: bounded (4,096 for each capability, more are
-- dropped), and pruned by the collector, which no pool outside the runtime system can do.
--
-- > main = print (sum (map expensive [1 .. 1000] `using` parListChunk 50 rdeepseq))
--
-- Cost: about 10 ns for each 'rpar'.
-- Owner: the runtime system; nothing waits for a spark.
module Heddle.Par.Strategies
  ( -- * Strategies
    Strategy,
    using,
    withStrategy,
    usingIO,
    dot,

    -- * Basic strategies
    r0,
    rseq,
    rdeepseq,
    rpar,
    rparWith,

    -- * Lists and other containers
    parMap,
    evalTraversable,
    parTraversable,
    evalList,
    parList,
    parListChunk,
    parListN,
    evalBuffer,
    parBuffer,

    -- * Tuples
    evalTuple2,
    parTuple2,
    evalTuple3,
    parTuple3,

    -- * The monad
    Eval,
    runEval,
    runEvalIO,

    -- * Sparks
    par,
    pseq,
    NFData (..),
  )
where

import Control.DeepSeq (NFData (..))
import Heddle.Prim.Exception (evaluate)
import Heddle.Prim.Thread (spark)
import Heddle.Prim.Unsafe (pseq, unsafePure)

-- | Says in what order, and where, the parts of a value are evaluated.
newtype Eval a = Eval (IO a)
  deriving newtype (Functor, Applicative, Monad)

-- | How to evaluate a value; the result is the same value.
type Strategy a = a -> Eval a

-- | Evaluate the parts, then return the value.
runEval :: Eval a -> a
runEval (Eval io) = unsafePure io

-- | 'runEval' as an action.
runEvalIO :: Eval a -> IO a
runEvalIO (Eval io) = io

infixl 0 `using`

infixr 9 `dot`

-- | The value, evaluated by the strategy.
using :: a -> Strategy a -> a
using a strategy = runEval (strategy a)

-- | 'using' with its arguments swapped.
withStrategy :: Strategy a -> a -> a
withStrategy strategy a = runEval (strategy a)

-- | 'using' as an action.
usingIO :: a -> Strategy a -> IO a
usingIO a strategy = runEvalIO (strategy a)

-- | First the right strategy, then the left.
dot :: Strategy a -> Strategy a -> Strategy a
dot second first a = first a >>= second

-- | Do nothing.
r0 :: Strategy a
r0 = pure

-- | Evaluate to weak head normal form, here and now.
rseq :: Strategy a
rseq a = Eval (evaluate a)
{-# NOINLINE [1] rseq #-}

-- | Evaluate to normal form, here and now.
rdeepseq :: NFData a => Strategy a
rdeepseq a = Eval (evaluate (rnf a) >> pure a)

-- | Spark a value: an idle capability may evaluate it to weak head normal form.
--
-- [Cost]: about 10 ns.
-- [Blocks]: never.
rpar :: Strategy a
rpar a = Eval (spark a >> pure a)

-- | Spark the evaluation of a value by a strategy.
rparWith :: Strategy a -> Strategy a
rparWith strategy a = Eval $ do
  -- The result is a lazy box, so that the spark does not demand the value.
  let box = runEval (Box <$> strategy a)
  spark box
  pure (case box of Box a' -> a')

-- Not a newtype: matching on it must not demand the value.
{- HLINT ignore Box "Use newtype instead of data" -}
data Box a = Box a

-- | Map, evaluating every result in parallel.
parMap :: Strategy b -> (a -> b) -> [a] -> [b]
parMap strategy f xs = map f xs `using` parList strategy

-- | Every element by the strategy, in order.
evalTraversable :: Traversable t => Strategy a -> Strategy (t a)
evalTraversable = traverse

-- | Every element in parallel.
parTraversable :: Traversable t => Strategy a -> Strategy (t a)
parTraversable strategy = traverse (rparWith strategy)

-- | Every element by the strategy, in order.
evalList :: Strategy a -> Strategy [a]
evalList = traverse

-- | Every element in parallel.
parList :: Strategy a -> Strategy [a]
parList strategy = traverse (rparWith strategy)

-- | Chunks of the given number of elements in parallel.
parListChunk :: Int -> Strategy a -> Strategy [a]
parListChunk n strategy xs
  | n <= 1 = parList strategy xs
  | otherwise = concat <$> parList (evalList strategy) (chunks xs)
  where
    chunks [] = []
    chunks ys = let (c, rest) = splitAt n ys in c : chunks rest

-- | The given number of elements at the front in parallel.
parListN :: Int -> Strategy a -> Strategy [a]
parListN n strategy xs = (++ after) <$> parList strategy before
  where
    (before, after) = splitAt n xs

-- | A lazy list of which the given number of elements is evaluated ahead of the consumer, in turn.
evalBuffer :: Int -> Strategy a -> Strategy [a]
evalBuffer n strategy xs = Eval (pure (ahead n (map (withStrategy strategy) xs) pseq))

-- | A lazy list of which the given number of elements is evaluated ahead of the consumer, in
-- parallel.
parBuffer :: Int -> Strategy a -> Strategy [a]
parBuffer n strategy xs = Eval (pure (ahead n (map (withStrategy strategy) xs) par))
{-# NOINLINE [1] parBuffer #-}

-- Sparking does what rseq would: without a second thunk for each element.
{-# RULES "parBuffer/rseq" forall n. parBuffer n rseq = parBufferWhnf n #-}

parBufferWhnf :: Int -> Strategy [a]
parBufferWhnf n xs = Eval (pure (ahead n xs par))

-- | Begin the first n elements with the first that is taken, and one more with each.
ahead :: Int -> [a] -> (a -> [a] -> [a]) -> [a]
ahead n xs begin = give xs (begun n xs)
  where
    begun 0 ys = ys
    begun _ [] = []
    begun m (y : ys) = y `begin` begun (m - 1) ys
    give (a : as) (b : bs) = b `begin` (a : give as bs)
    give as [] = as
    give [] _ = []

-- | Both parts, in order.
evalTuple2 :: Strategy a -> Strategy b -> Strategy (a, b)
evalTuple2 sa sb (a, b) = (,) <$> sa a <*> sb b

-- | Both parts in parallel.
parTuple2 :: Strategy a -> Strategy b -> Strategy (a, b)
parTuple2 sa sb = evalTuple2 (rparWith sa) (rparWith sb)

-- | Three parts, in order.
evalTuple3 :: Strategy a -> Strategy b -> Strategy c -> Strategy (a, b, c)
evalTuple3 sa sb sc (a, b, c) = (,,) <$> sa a <*> sb b <*> sc c

-- | Three parts in parallel.
parTuple3 :: Strategy a -> Strategy b -> Strategy c -> Strategy (a, b, c)
parTuple3 sa sb sc = evalTuple3 (rparWith sa) (rparWith sb) (rparWith sc)

infixr 0 `par`

-- | Spark the first, to weak head normal form; the value is the second.
--
-- [Cost]: about 10 ns.
par :: a -> b -> b
par a b = unsafePure (spark a) `seq` b
